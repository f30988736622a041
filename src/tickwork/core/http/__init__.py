"""HTTP as values: requests and answers of services, and the handlers that an app declares."""
