"""Whole systems built with Tickwork, small enough to read in one sitting."""
