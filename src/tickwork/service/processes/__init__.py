"""One app in several processes: a parent that starts and watches them, and what a child knows.

```
  parent   listens, starts, restarts, drains; runs no code of the app
    │  a socket pair for each child (`protocol`)
  child    an app in a process, as without a parent; serves at the parent's sockets
```

The parent decides with `core/children`. A child that loses its parent drains.
"""
