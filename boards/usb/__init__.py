"""What hangs on a made-up USB cable."""
