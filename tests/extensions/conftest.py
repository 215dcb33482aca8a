"""What the tests of extensions share with the planner's."""

from tests.unit.planner.conftest import desk, nobody_is_signed_in

__all__ = ["desk", "nobody_is_signed_in"]
