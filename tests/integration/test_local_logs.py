"""Crashes with the file manager that makes Spark's logs quick on a local disk (docs/sizing.md).

By default, Hadoop starts a process for each of several steps when it writes a file. The other
manager that Spark has does without these, and like the default looks for a file before it renames
another one to its name. The tests are those of other modules; here they run with that manager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from harness import Application, StartApplication
from harness.application import applications
from harness.object_store import MANAGER
from harness.versions import FILE_SYSTEM_MANAGER, HAS_REAL_TIME
from test_epoch_scope_crashes import (  # noqa: F401
    test_a_checkpoint_that_has_gone_back_behind_a_decision_stops_the_query,
    test_a_driver_killed_at_any_step_of_an_epoch,
    test_a_driver_killed_in_its_first_epoch,
    test_a_driver_that_decides_while_another_one_starts_is_not_repeated,
    test_a_driver_that_wakes_up_after_another_has_taken_over_changes_nothing,
    test_a_first_epoch_is_not_written_after_another_driver_has_started,
)
from test_task_scope_crashes import (  # noqa: F401
    test_a_driver_stopped_in_mid_batch_is_fenced_by_the_second_one_and_leaves_it_alone,
    test_a_driver_stopped_while_another_came_and_left_takes_the_group_back_and_repeats_nothing,
    test_an_executor_killed_at_any_point_of_its_commit_leaves_no_duplicate,
    test_driver_and_executors_killed_with_a_transaction_open_do_not_block_the_restart,
    test_invariant_8_a_driver_stopped_before_it_logs_a_batch_learns_who_has_taken_over,
)

if HAS_REAL_TIME:
    from test_real_time_crashes import (  # noqa: F401
        test_a_driver_killed_between_a_batchs_commits_and_its_log,
        test_a_driver_killed_in_mid_batch_may_be_followed_by_micro_batches_and_they_by_it,
    )

pytestmark = pytest.mark.slow

QUICK = {MANAGER: FILE_SYSTEM_MANAGER}


@pytest.fixture(scope="module")
def shared_application(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Application]:
    folder = tmp_path_factory.mktemp("application")
    with Application(folder, "local-cluster[2,1,1024]", QUICK) as application:
        yield application


@pytest.fixture
def start_application(tmp_path: Path, keep_logs: list[Path]) -> Iterator[StartApplication]:
    with applications(tmp_path, keep_logs) as start:

        def start_quick(
            master: str,
            given: Mapping[str, str] | None = None,
            /,
            *,
            python: Path | None = None,
            **settings: str,
        ) -> Application:
            return start(master, {**QUICK, **(given or {})}, python=python, **settings)

        yield start_quick
