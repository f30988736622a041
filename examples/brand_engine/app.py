"""All five services in one process: `tickwork run examples.brand_engine.app:app`."""

from examples.brand_engine import gatherfeed, pages_plus, scalable_media, social_good
from examples.brand_engine.messages import app

__all__ = ["app", "gatherfeed", "pages_plus", "scalable_media", "social_good"]
