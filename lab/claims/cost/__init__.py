"""What a norm costs: operations, passes over memory, bytes kept, time."""
