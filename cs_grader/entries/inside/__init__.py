"""What runs behind the wall of an entry, copied there beside the sandbox's confine.py."""
