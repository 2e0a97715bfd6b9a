"""The command line: everything a person reads or types."""
