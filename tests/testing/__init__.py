"""What ships to users for their tests, tested itself."""
