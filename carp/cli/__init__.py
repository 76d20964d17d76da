"""The command line: talks to people, imports the heavy parts only when a command runs."""
