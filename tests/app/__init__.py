"""What an app declares."""
