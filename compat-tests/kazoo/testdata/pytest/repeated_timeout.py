"""A plugin for pytest: the alarm of pytest-timeout goes off again and again.

It does once for each test. Kazoo's lock tests then join their threads, which wait for what the test that was ended
would have done. test_lock can come to that on any server: it looks whether a contender has let go, and does not see
it if the next one has the lock already.
"""

import signal

import pytest


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item):
    seconds = item.config.getvalue("timeout")
    signal.setitimer(signal.ITIMER_REAL, seconds, seconds)  # pytest-timeout stops it
    yield
