"""When a schedule fires: the product against an independent, slow reference."""
