"""A content pipeline of five services and eight queues."""
