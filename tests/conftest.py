"""What all tests share: examples that are the same every time, and no deadline on slow machines."""

from hypothesis import settings

settings.register_profile("steady", deadline=None, derandomize=True, database=None)
settings.load_profile("steady")
