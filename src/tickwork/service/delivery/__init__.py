"""The built-in consumers that deliver outside.

```
  deliver      slots of schedules: to a URL, to channels, by email
  slots        slots of schedules whose target is an endpoint
  endpoints    published events, to the endpoints of tenants
  push         queues whose consumer is an endpoint
  alerts       alerts to tenants
  lease_pager  the alert to the operator from a node that cannot reach its database
  progress     which channels of a message have arrived
```
"""
