"""Rule by rule: which test elsewhere shows it on what, and why it does not touch the rest."""

from __future__ import annotations

__all__ = ["ELSEWHERE", "EVERY_COMMAND", "NOT_TOUCHED"]

EVERY_COMMAND = "every command"
"""Stands for all of them, where a test walks them all or nothing of a rule can touch a command."""

_ASKED = """
AsyncEvalsClient.cancel_hosted_evaluation, AsyncEvalsClient.delete_evaluation,
AsyncEvalsClient.get_evaluation, AsyncEvalsClient.get_hosted_logs, AsyncEvalsClient.get_samples,
AsyncEvalsClient.list_evaluations, AsyncEvalsClient.wait_for_evaluation,
AsyncAPIClient.delete, AsyncAPIClient.get,
AsyncSandboxClient.add_lan_member, AsyncSandboxClient.attach_process,
AsyncSandboxClient.cancel_background_job, AsyncSandboxClient.checkpoint,
AsyncSandboxClient.close_ssh_session, AsyncSandboxClient.create,
AsyncSandboxClient.create_lan_network, AsyncSandboxClient.create_ssh_session,
AsyncSandboxClient.delete, AsyncSandboxClient.delete_checkpoint,
AsyncSandboxClient.delete_lan_network, AsyncSandboxClient.delete_sandbox_checkpoints,
AsyncSandboxClient.expose, AsyncSandboxClient.get,
AsyncSandboxClient.get_background_job_status, AsyncSandboxClient.get_background_job_statuses,
AsyncSandboxClient.get_checkpoint, AsyncSandboxClient.get_error_context,
AsyncSandboxClient.get_lan_network, AsyncSandboxClient.get_logs, AsyncSandboxClient.get_network,
AsyncSandboxClient.list, AsyncSandboxClient.list_all_exposed_ports,
AsyncSandboxClient.list_background_jobs, AsyncSandboxClient.list_checkpoints,
AsyncSandboxClient.list_exposed_ports, AsyncSandboxClient.list_files,
AsyncSandboxClient.list_lan_networks, AsyncSandboxClient.open_process,
AsyncSandboxClient.remove_lan_member, AsyncSandboxClient.sandbox,
AsyncSandboxClient.set_lan_rules, AsyncSandboxClient.set_network,
AsyncSandboxClient.start_background_job, AsyncSandboxClient.unexpose,
AsyncSandboxClient.wait_for_checkpoint, AsyncSandboxClient.wait_for_creation,
AsyncVolumes.create, AsyncVolumes.delete, AsyncVolumes.get, AsyncVolumes.list,
AsyncVolumes.publish,
AsyncImageClient.get_build_status, AsyncImageClient.initiate_build, AsyncImageClient.list,
AsyncImageClient.start_build, AsyncImageClient.transfer_image, AsyncImageClient.wait_for_build,
AsyncTracesClient.delete, AsyncTracesClient.delete_episode, AsyncTracesClient.delete_run,
AsyncTracesClient.get, AsyncTracesClient.get_episode, AsyncTracesClient.get_episode_raw,
AsyncTracesClient.get_raw, AsyncTracesClient.get_run, AsyncTracesClient.list,
AsyncTracesClient.list_calls, AsyncTracesClient.list_episode_traces,
AsyncTracesClient.list_episodes, AsyncTracesClient.list_nodes,
AsyncTracesClient.list_run_steps, AsyncTracesClient.list_runs, AsyncTracesClient.search,
AsyncTracesAPIClient.delete, AsyncTracesAPIClient.get, AsyncTracesAPIClient.get_json,
AsyncRunsClient.get_training_run, AsyncRunsClient.list_distributions,
AsyncRunsClient.list_metrics, AsyncRunsClient.list_training_runs,
AsyncSandboxProcess.close_stdin, AsyncSandboxProcess.detach, AsyncSandboxProcess.kill,
AsyncSandboxProcess.resize, AsyncSandboxProcess.send_signal, AsyncSandboxProcess.terminate,
AsyncSandboxProcess.aclose, AsyncCommandStream.aclose, init, compress_batch
"""
"""One question, one answer, or one error."""

_TOLD = """
AsyncEvalsClient.create_evaluation, AsyncEvalsClient.create_hosted_evaluation,
AsyncEvalsClient.finalize_evaluation, AsyncEvalsClient.update_evaluation,
AsyncAPIClient.patch, AsyncAPIClient.post, AsyncAPIClient.put, AsyncAPIClient.request,
AsyncTracesAPIClient.patch, AsyncTracesAPIClient.post, AsyncTracesAPIClient.put,
AsyncTracesAPIClient.request
"""
"""One description of the caller's making, in one request."""

_PAGED = """
AsyncEvalsClient.iter_evaluations, AsyncEvalsClient.iter_hosted_logs, AsyncVolumes.iter,
AsyncSandboxClient.iter_sandboxes, AsyncImageClient.iter, AsyncTracesClient.iter,
AsyncTracesClient.iter_calls, AsyncTracesClient.iter_episodes, AsyncTracesClient.iter_nodes,
AsyncTracesClient.iter_runs, AsyncTracesClient.iter_search, AsyncTracesClient.aggregate,
AsyncRunsClient.iter_distributions, AsyncRunsClient.iter_metrics
"""
"""Page by page, each no more than what one call asks for."""

_OF_MANY = """
AsyncSandboxClient.bulk_delete, AsyncSandboxClient.bulk_wait_for_creation,
AsyncSandboxClient.get_checkpoints, AsyncSandboxClient.get_sandbox_statuses,
AsyncImageClient.update_images
"""
"""One question about up to a hundred things."""

_OUTPUTS = """
AsyncSandboxClient.as_completed, AsyncSandboxClient.get_background_job,
AsyncSandboxClient.get_background_jobs, AsyncSandboxClient.run_background_job,
AsyncSandboxClient.wait_background_jobs
"""

_LOGGED = """
AsyncRun.log_distributions, AsyncRun.log_episode, AsyncRun.log_episodes, AsyncRun.log_metrics,
AsyncRun.log_samples, AsyncRun.log_trace, AsyncRun.log_traces, AsyncRun.update_summary,
AsyncRun.begin_finish, AsyncRun.alog_episodes, AsyncRun.alog_metrics, AsyncRun.alog_samples,
AsyncRun.alog_traces
"""

_ENDED = "AsyncRun.fail, AsyncRun.finish, AsyncRun.flush"

_SMALL_COMMANDS = """
eval create, eval delete, eval finalize, eval get, eval list, eval logs, eval samples, eval stop,
eval update, job cancel, job list, job start, job status, runs compare, runs get, runs list,
runs metrics, sandbox checkpoint create, sandbox checkpoint delete, sandbox checkpoint get,
sandbox checkpoint list, sandbox checkpoint restore, sandbox create, sandbox delete,
sandbox expose add, sandbox expose list, sandbox expose remove, sandbox files, sandbox get,
sandbox list, sandbox logs, sandbox network get, sandbox network set, sandbox volumes create,
sandbox volumes delete, sandbox volumes get, sandbox volumes list, sandbox volumes publish,
traces delete, traces get, traces list, traces search, whoami
"""

ELSEWHERE: dict[int, dict[str, str]] = {
    2: {
        "tests/sandboxes/jobs/test_polling.py::test_passing_faults_are_waited_out": (
            "AsyncSandboxClient.as_completed, AsyncSandboxClient.wait_background_jobs, job wait"
        ),
        "tests/sandboxes/test_processes.py::test_a_connection_that_cannot_be_made_again_is_told": (
            "AsyncProcessStream.read, AsyncSandboxProcess.wait"
        ),
        "tests/runs/test_delivery.py::test_an_answer_that_is_lost_is_no_second_copy": _LOGGED,
    },
    3: {
        "tests/sandboxes/test_processes.py::test_cancelling_a_block_ends_the_process": (
            "AsyncSandboxProcess.aclose, AsyncSandboxProcess.wait, AsyncProcessStream.read"
        ),
        "tests/sandboxes/test_faces.py::test_leaving_the_block_ends_the_command": (
            "AsyncCommandStream.aclose, AsyncCommandStream.outputs, AsyncCommandStream.wait"
        ),
        "tests/cli/test_evals.py::test_an_interrupted_request_ends_at_once": EVERY_COMMAND,
    },
    4: {
        "tests/sandboxes/jobs/test_polling.py::test_a_bad_job_is_an_error_of_its_own": _OUTPUTS,
        "tests/sandboxes/test_control.py::test_many_are_deleted_at_once": (
            "AsyncSandboxClient.bulk_delete"
        ),
        "tests/sandboxes/test_control.py::test_waiting_for_many": (
            "AsyncSandboxClient.bulk_wait_for_creation"
        ),
        "tests/sandboxes/test_control.py::test_statuses_come_in_one_request": (
            "AsyncSandboxClient.get_sandbox_statuses"
        ),
        "tests/sandboxes/test_checkpoints.py::test_many_at_a_time": (
            "AsyncSandboxClient.get_checkpoints"
        ),
        "tests/images/test_images.py::test_changes_are_each_on_their_own": (
            "AsyncImageClient.update_images"
        ),
        "tests/images/test_images.py::test_a_folder_becomes_an_image": (
            "AsyncImageClient.build_image"
        ),
        "tests/field_reports/test_FR_C_output.py::test_FR12_cut_output_is_marked": (
            "AsyncSandboxClient.execute_command, AsyncSandboxClient.stream_command, "
            "AsyncCommandStream.outputs, AsyncCommandStream.wait, sandbox exec, sandbox run"
        ),
        "tests/sandboxes/test_processes.py::test_what_nobody_reads_is_bounded_and_counted": (
            "AsyncProcessStream.read, AsyncSandboxProcess.wait"
        ),
        "tests/sandboxes/test_processes.py::test_input_output_and_the_exit_code": (
            "AsyncSandboxProcess.write_stdin"
        ),
        "tests/sandboxes/jobs/test_starting.py::"
        "test_following_gives_exact_bytes_and_can_be_gone_on_with": (
            "AsyncSandboxClient.follow_background_job, job follow"
        ),
        "tests/sandboxes/test_files.py::test_a_damaged_transfer_is_told": (
            "AsyncSandboxClient.download_file, AsyncSandboxClient.upload_file, "
            "AsyncSandboxClient.upload_bytes, sandbox download, sandbox upload"
        ),
        "tests/sandboxes/test_files.py::test_windows_of_files_are_read": (
            "AsyncSandboxClient.read_file"
        ),
        "tests/field_reports/test_FR_D_files.py::test_FR16_links_and_pipes": (
            "AsyncSandboxClient.download_tree, AsyncSandboxClient.upload_tree"
        ),
        "tests/traces/test_upload.py::test_records_that_cannot_be_sent_do_not_hold_up_the_others": (
            "AsyncTracesClient.upload_records"
        ),
        "tests/traces/test_upload.py::test_lines_too_large_are_passed_over": (
            "AsyncTracesClient.upload_file, AsyncTracesClient.upload_lines"
        ),
        "tests/traces/test_upload.py::test_an_outcome_that_is_unknown_says_so": (
            "AsyncTracesClient.upload_batch, AsyncTracesAPIClient.upload_batch"
        ),
        "tests/traces/test_reading.py::test_a_download_is_whole_or_not_there": (
            "AsyncTracesClient.download, AsyncTracesClient.download_raw, "
            "AsyncTracesAPIClient.stream_bytes"
        ),
        "tests/traces/test_exports.py::test_an_export_that_fails_leaves_nothing": (
            "AsyncTracesClient.export, traces export"
        ),
        "tests/traces/test_reading.py::test_pages_are_fetched_ahead": _PAGED,
        "tests/evals/test_client.py::test_samples_are_read_page_by_page": (
            "AsyncEvalsClient.iter_samples"
        ),
        "tests/evals/test_runs.py::test_the_error_names_what_is_left": (
            "AsyncEvalsClient.push_run, eval push"
        ),
        "tests/runs/test_chaos.py::test_a_stormy_life": f"{_LOGGED}, {_ENDED}",
        "tests/runs/test_chaos.py::"
        "test_records_that_lie_on_a_disk_that_is_synced_twice_at_once": "sync_runs, watch_runs",
        "tests/bridges/test_rollouts.py::test_a_full_queue_is_waited_for": "stream_results",
        "tests/traces/test_batches.py::test_long_lines_are_passed_over": ("aiter_batches"),
        "tests/cli/test_job.py::test_ending_and_being_late": "job wait",
        "tests/cli/test_traces.py::test_an_upload_of_lines_that_are_refused_fails": (
            "traces upload"
        ),
        "tests/cli/test_traces_going_on.py::test_sync_lists_and_delivers": "traces sync",
        "tests/cli/test_traces_going_on.py::test_a_look_finds_what_is_new_and_nothing_twice": (
            "traces tail"
        ),
    },
    5: {
        "tests/sandboxes/jobs/test_job_output.py::test_the_cache_never_holds_more": _OUTPUTS,
        "tests/sandboxes/jobs/test_job_output.py::"
        "test_the_end_of_a_long_output_is_read_and_marked": (
            "AsyncSandboxClient.follow_background_job, job follow, job wait"
        ),
        "tests/field_reports/test_FR_D_files.py::test_FR19_memory_and_loop_stay_free": (
            "sandbox download, sandbox upload"
        ),
        "tests/runs/test_memory.py::test_logging_to_a_platform_that_is_down": (
            f"{_LOGGED}, {_ENDED}, stream_results"
        ),
        "tests/spool/test_memory.py::test_replaying": "sync_runs, watch_runs",
        "tests/traces/test_sources.py::test_only_one_batch_is_read_ahead": (
            "aiter_batches, AsyncTracesClient.upload_batch, AsyncTracesAPIClient.upload_batch"
        ),
        "tests/traces/test_reading.py::test_a_download_is_whole_or_not_there": (
            "AsyncTracesClient.download, AsyncTracesClient.export, traces export"
        ),
        "tests/evals/test_memory.py::test_ten_times_the_samples_in_the_same_memory": (
            "AsyncEvalsClient.push_run"
        ),
    },
    6: {
        "tests/traces/test_sources.py::test_records_are_encoded_off_the_loop": (
            "AsyncTracesClient.upload_records, AsyncTracesClient.upload_lines, "
            "AsyncTracesClient.upload_file, AsyncTracesClient.upload_batch, "
            "AsyncTracesAPIClient.upload_batch, aiter_batches, compress_batch"
        ),
        "tests/field_reports/test_FR_D_files.py::test_FR19_memory_and_loop_stay_free": (
            "AsyncSandboxClient.upload_file"
        ),
        "tests/evals/test_memory.py::test_the_loop_stays_free": (
            "AsyncEvalsClient.push_run, AsyncEvalsClient.sync_pushes"
        ),
        "tests/evals/test_hosted_logs.py::test_a_long_log_does_not_hold_the_loop": (
            "AsyncEvalsClient.iter_hosted_logs"
        ),
    },
    8: {"tests/cli/test_wrong_input.py::test_wrong_answers_of_the_platform": EVERY_COMMAND},
    9: {"tests/cli/test_wrong_input.py::test_wrong_answers_of_the_platform": EVERY_COMMAND},
}
"""By rule: a test that shows it as well, and on what."""

_TREES = """
AsyncSandboxClient.upload_tree, AsyncSandboxClient.download_tree, AsyncImageClient.build_image
"""
_BYTES = "AsyncSandboxClient.upload_bytes, AsyncSandboxClient.read_file"
_NOT_SENT_BY_US = """
AsyncCommandStream.aclose, AsyncCommandStream.outputs, AsyncCommandStream.wait,
AsyncProcessStream.read, AsyncSandboxProcess.aclose, AsyncSandboxProcess.detach,
AsyncSandboxProcess.wait
"""
_MESSAGES = """
AsyncSandboxProcess.close_stdin, AsyncSandboxProcess.kill, AsyncSandboxProcess.resize,
AsyncSandboxProcess.send_signal, AsyncSandboxProcess.terminate, AsyncSandboxProcess.write_stdin
"""
_FILES = """
AsyncSandboxClient.download_file, AsyncSandboxClient.upload_file, AsyncTracesClient.download,
AsyncTracesClient.download_raw, AsyncTracesClient.export, AsyncTracesAPIClient.stream_bytes
"""
_COMMANDS = """
AsyncSandboxClient.execute_command, AsyncSandboxClient.stream_command,
AsyncSandboxClient.follow_background_job
"""
_LINES = """
AsyncTracesClient.upload_batch, AsyncTracesClient.upload_file, AsyncTracesClient.upload_lines,
AsyncTracesAPIClient.upload_batch, aiter_batches
"""
_DELIVERED = "AsyncEvalsClient.sync_pushes, sync_runs, watch_runs"

NOT_TOUCHED: dict[int, dict[str, str]] = {
    1: {
        "plain functions: they wait for nobody": """
            AsyncRun.log_distributions, AsyncRun.log_episode, AsyncRun.log_episodes,
            AsyncRun.log_metrics, AsyncRun.log_samples, AsyncRun.log_trace, AsyncRun.log_traces,
            AsyncRun.update_summary, AsyncRun.begin_finish""",
        "they send nothing": "aiter_batches, compress_batch",
        "as long as its source lasts; each record waits for room as alog_traces does": (
            "stream_results"
        ),
        "a command takes no deadline: those of its calls end it": EVERY_COMMAND,
    },
    2: {
        "they send nothing": "aiter_batches, compress_batch, AsyncSandboxProcess.detach",
        "what it logs goes the way of alog_traces": "stream_results",
        "it sends signals, as kill does": "AsyncSandboxProcess.aclose, AsyncCommandStream.aclose",
        "a command is started once; the call that made it shows that": (
            "AsyncCommandStream.outputs, AsyncCommandStream.wait"
        ),
    },
    3: {
        "plain functions: there is nothing to be cancelled": """
            AsyncRun.log_distributions, AsyncRun.log_episode, AsyncRun.log_episodes,
            AsyncRun.log_metrics, AsyncRun.log_samples, AsyncRun.log_trace, AsyncRun.log_traces,
            AsyncRun.update_summary, AsyncRun.begin_finish""",
        "they start nothing that would be left": (
            "aiter_batches, compress_batch, AsyncSandboxProcess.detach"
        ),
        "one record after the other: a run keeps what it has": "stream_results",
    },
    4: {
        "one question, one answer or one error: nothing is left half": _ASKED,
        "one request, stored or refused as a whole": _TOLD,
        "one thing is asked or told, as by its call": _SMALL_COMMANDS,
    },
    5: {
        "an answer of bounded size": _ASKED,
        "the caller holds what it says": _TOLD,
        "one page and the next are held": _PAGED,
        "a hundred small answers": _OF_MANY,
        "packed into windows of 1 MiB, which go as those of upload_file": _TREES,
        "the caller holds the bytes; read_file is refused above 64 MiB": _BYTES,
        "the caller holds the bytes; they go in pieces of 256 KiB": (
            "AsyncSandboxProcess.write_stdin"
        ),
        "its samples go in chunks as those of push_samples": "AsyncEvalsClient.sync_pushes",
        "as its call": _SMALL_COMMANDS,
        "as upload_file": "traces upload",
        "as sync_runs": "traces sync",
        "a page at a time": "traces tail",
        "as stream_command": "sandbox exec, sandbox run",
    },
    6: {
        "one page, decoded in one turn: 12 ms for a MiB of small values": f"{_ASKED}, {_OF_MANY}",
        "one description, encoded in one turn": _TOLD,
        "page by page, each a turn of its own": _PAGED.replace(
            "AsyncEvalsClient.iter_hosted_logs,", ""
        ),
        "its bytes are handed on as they are": f"{_BYTES}, {_MESSAGES}",
        "read as the lines of stream_command are": """
            AsyncCommandStream.outputs, AsyncCommandStream.wait, AsyncSandboxProcess.wait""",
        "outputs are read window by window, each a turn of its own": (
            f"{_OUTPUTS}, AsyncSandboxClient.follow_background_job"
        ),
        "from pages to a file, in a thread": (
            "AsyncTracesClient.download, AsyncTracesClient.export"
        ),
        "files are read, packed and written in threads": _TREES,
        "from disk in threads, a batch at a time": "sync_runs, watch_runs",
        "a command's loop serves nobody else": EVERY_COMMAND,
    },
    7: {
        "it takes names and numbers, no values of the caller's": f"{_ASKED}, {_PAGED}, {_OF_MANY}",
        "it takes text and bytes": f"{_FILES}, {_TREES}, {_BYTES}, {_COMMANDS}, {_OUTPUTS}",
        "its lines are JSON already": _LINES,
        "what it delivers was written when it was logged": f"{_DELIVERED}, {_ENDED}",
        "it takes bytes, or nothing": f"{_MESSAGES}, {_NOT_SENT_BY_US}",
        "its rollouts are logged as alog_samples logs them": "stream_results",
        "it reads a page of samples": "AsyncEvalsClient.iter_samples",
        "its file holds JSON": "AsyncEvalsClient.push_run",
        "what is typed on a command line is text or JSON": EVERY_COMMAND,
        "it has no values": "AsyncRun.begin_finish",
    },
    8: {
        "its errors are those of the call that made it": _NOT_SENT_BY_US,
        "what it refuses is counted, and told by flush and finish": f"{_LOGGED}, stream_results",
        "its errors are those of the calls it makes": "init, sync_runs, watch_runs",
        "they send nothing": "aiter_batches, compress_batch",
    },
    9: {
        "it sends no key: the errors are those of the call that made it": _NOT_SENT_BY_US,
        "they take records, and errors come out of flush and finish": f"{_LOGGED}, stream_results",
        "their errors are those of the calls they make": "init, sync_runs, watch_runs",
        "they send nothing": "aiter_batches, compress_batch",
    },
    10: {
        "it goes through the gateway of its client, which belongs to one loop": (
            f"{_NOT_SENT_BY_US}, {_MESSAGES}"
        ),
        "plain code for any thread: T1 shows it on both kinds of run": f"{_LOGGED}, {_ENDED}",
        "they use the client they are given, or the uploader's own loop": (
            "init, sync_runs, watch_runs, stream_results"
        ),
        "they have no connection": "aiter_batches, compress_batch",
        "a command is a process of its own, with one loop": EVERY_COMMAND,
    },
}
"""By rule: why it does not touch what; one line each."""
