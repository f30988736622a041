"""The built-in consumers that deliver outside.

```
  deliver      slots of schedules: to a URL, to channels, by email
  slots        slots of schedules whose target is an endpoint
  endpoints    published events, to the endpoints of tenants
  push         queues whose consumer is an endpoint
  alerts       what tenants are told of
  lease_pager  what the operator is told of by a node that cannot reach its database
  progress     which channels of a message have arrived
```
"""
