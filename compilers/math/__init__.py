"""Elementary functions in the few ops that every renderer prints."""
