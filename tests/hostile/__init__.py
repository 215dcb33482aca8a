"""What a hostile container, machine or author of a job file leaves, met by every command that reads it."""
