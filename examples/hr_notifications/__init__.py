"""An HR app whose users schedule notifications, reports and syncs for themselves."""
