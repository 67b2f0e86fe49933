"""AMD's packets (PM4, AQL, SDMA), launches, queues and recordings."""
