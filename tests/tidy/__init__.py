"""Style as law: what a reviewer would otherwise have to say twice."""
