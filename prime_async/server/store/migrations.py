"""Numbered steps from an empty database to the tables of :mod:`prime_async.server.store.schema`.

A step, once released, never changes; a new need is a new step at the end. Each step and its number
are committed together, so a crash leaves the database at a whole step.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from prime_async.errors import LocalPlatformError

__all__ = ["MIGRATIONS", "Migration", "migrate"]


@dataclass(frozen=True, slots=True)
class Migration:
    """One step: its number, what it is for, and its statements."""

    number: int
    title: str
    statements: tuple[str, ...]


MIGRATIONS: tuple[Migration, ...] = (
    Migration(
        1,
        "accounts, environments, evaluations, samples, idempotency keys, leases",
        (
            """CREATE TABLE accounts (
                id VARCHAR NOT NULL PRIMARY KEY, slug VARCHAR NOT NULL UNIQUE, name VARCHAR NOT
                NULL, email VARCHAR NOT NULL, created_at FLOAT NOT NULL)""",
            """CREATE TABLE api_keys (
                digest BLOB NOT NULL PRIMARY KEY, account_id VARCHAR NOT NULL, label VARCHAR NOT
                NULL, created_at FLOAT NOT NULL)""",
            """CREATE TABLE teams (
                id VARCHAR NOT NULL PRIMARY KEY, slug VARCHAR NOT NULL UNIQUE, name VARCHAR NOT
                NULL, created_at FLOAT NOT NULL)""",
            """CREATE TABLE team_members (
                team_id VARCHAR NOT NULL, account_id VARCHAR NOT NULL, role VARCHAR NOT NULL,
                created_at FLOAT NOT NULL, PRIMARY KEY (team_id, account_id))""",
            """CREATE TABLE environments (
                id VARCHAR NOT NULL PRIMARY KEY, owner VARCHAR NOT NULL, name VARCHAR NOT NULL,
                account_id VARCHAR NOT NULL, team_id VARCHAR, visibility VARCHAR NOT NULL,
                description VARCHAR, created_at FLOAT NOT NULL, updated_at FLOAT NOT NULL,
                UNIQUE (owner, name))""",
            """CREATE TABLE evaluations (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id VARCHAR NOT NULL UNIQUE,
                account_id VARCHAR NOT NULL, team_id VARCHAR, name VARCHAR NOT NULL, model_name
                VARCHAR, dataset VARCHAR, framework VARCHAR, task_type VARCHAR, description VARCHAR,
                suite_id VARCHAR, run_id VARCHAR, is_public BOOLEAN NOT NULL, tags BLOB NOT NULL,
                metadata BLOB, metrics BLOB, status VARCHAR NOT NULL, total_samples INTEGER NOT
                NULL, created_at FLOAT NOT NULL, updated_at FLOAT NOT NULL, finalized_at FLOAT)""",
            "CREATE INDEX evaluations_by_account ON evaluations (account_id)",
            "CREATE INDEX evaluations_by_team ON evaluations (team_id)",
            """CREATE TABLE evaluation_environments (
                evaluation INTEGER NOT NULL, position INTEGER NOT NULL, environment_id VARCHAR NOT
                NULL, version_id VARCHAR, PRIMARY KEY (evaluation, position))""",
            "CREATE INDEX evaluations_by_environment ON evaluation_environments (environment_id)",
            """CREATE TABLE pushes (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, evaluation INTEGER NOT NULL,
                push_id VARCHAR NOT NULL, stored INTEGER NOT NULL, UNIQUE (evaluation, push_id))""",
            """CREATE TABLE sample_chunks (
                number INTEGER NOT NULL PRIMARY KEY, evaluation INTEGER NOT NULL, push INTEGER NOT
                NULL, start INTEGER NOT NULL, count INTEGER NOT NULL, offsets BLOB NOT NULL, data
                BLOB NOT NULL)""",
            """CREATE UNIQUE INDEX sample_chunks_in_order
                ON sample_chunks (evaluation, push, start, count)""",
            """CREATE TABLE idempotency_keys (
                scope VARCHAR NOT NULL, key VARCHAR NOT NULL, fingerprint BLOB NOT NULL,
                status INTEGER NOT NULL, body BLOB NOT NULL, expires_at FLOAT NOT NULL,
                PRIMARY KEY (scope, key))""",
            "CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_at)",
            """CREATE TABLE leases (
                token INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, kind VARCHAR NOT NULL,
                subject VARCHAR NOT NULL, owner VARCHAR NOT NULL, action VARCHAR NOT NULL,
                payload BLOB NOT NULL, expires_at FLOAT NOT NULL, due_at FLOAT NOT NULL,
                failures INTEGER NOT NULL, UNIQUE (kind, subject))""",
            "CREATE INDEX leases_by_due_time ON leases (due_at)",
        ),
    ),
    Migration(
        2,
        "sandboxes and their labels, uploads that are on their way",
        (
            """CREATE TABLE sandboxes (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id VARCHAR NOT NULL UNIQUE,
                account_id VARCHAR NOT NULL, team_id VARCHAR, name VARCHAR NOT NULL, vm BOOLEAN NOT
                NULL, status VARCHAR NOT NULL, spec BLOB NOT NULL, labels BLOB NOT NULL, notes BLOB
                NOT NULL, limits BLOB, runtime BLOB, policy BLOB NOT NULL, generation INTEGER NOT
                NULL, applied_generation INTEGER NOT NULL, request_key VARCHAR, request_digest BLOB,
                exit_code INTEGER, error_type VARCHAR, error_message VARCHAR, termination_reason
                VARCHAR, created_at FLOAT NOT NULL, updated_at FLOAT NOT NULL, started_at FLOAT,
                terminated_at FLOAT, UNIQUE (account_id, request_key))""",
            "CREATE INDEX sandboxes_by_account ON sandboxes (account_id)",
            "CREATE INDEX sandboxes_by_team ON sandboxes (team_id)",
            "CREATE INDEX sandboxes_by_status ON sandboxes (status)",
            """CREATE TABLE sandbox_labels (
                label VARCHAR NOT NULL, sandbox INTEGER NOT NULL, PRIMARY KEY (label, sandbox))""",
            """CREATE TABLE sandbox_uploads (
                upload_id VARCHAR NOT NULL PRIMARY KEY, sandbox_id VARCHAR NOT NULL,
                path BLOB NOT NULL, resumable BOOLEAN NOT NULL, updated_at FLOAT NOT NULL)""",
            "CREATE INDEX sandbox_uploads_by_sandbox ON sandbox_uploads (sandbox_id)",
        ),
    ),
    Migration(
        3,
        "checkpoints, volumes, exposed ports",
        (
            "ALTER TABLE sandboxes ADD COLUMN checkpoint_id VARCHAR",
            """CREATE TABLE checkpoints (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id VARCHAR NOT NULL UNIQUE,
                account_id VARCHAR NOT NULL, team_id VARCHAR, sandbox_id VARCHAR NOT NULL,
                volume_id VARCHAR, parent_id VARCHAR, state VARCHAR NOT NULL, depth INTEGER NOT
                NULL, docker_image VARCHAR NOT NULL, disk_size_bytes INTEGER NOT NULL, stored_bytes
                INTEGER, occupied_bytes INTEGER NOT NULL, error VARCHAR, created_at FLOAT NOT NULL,
                updated_at FLOAT NOT NULL)""",
            "CREATE INDEX checkpoints_by_sandbox ON checkpoints (sandbox_id)",
            "CREATE INDEX checkpoints_by_volume ON checkpoints (volume_id)",
            """CREATE TABLE volumes (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id VARCHAR NOT NULL UNIQUE,
                account_id VARCHAR NOT NULL, team_id VARCHAR, scope VARCHAR NOT NULL, name VARCHAR
                NOT NULL, head_checkpoint_id VARCHAR, created_at FLOAT NOT NULL,
                UNIQUE (scope, name))""",
            """CREATE TABLE volume_mounts (
                sandbox_id VARCHAR NOT NULL, mount_path VARCHAR NOT NULL, volume_id VARCHAR NOT
                NULL, read_only BOOLEAN NOT NULL, base_checkpoint_id VARCHAR,
                PRIMARY KEY (sandbox_id, mount_path))""",
            "CREATE INDEX volume_mounts_by_volume ON volume_mounts (volume_id)",
            """CREATE TABLE exposures (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id VARCHAR NOT NULL UNIQUE,
                sandbox_id VARCHAR NOT NULL, port INTEGER NOT NULL, protocol VARCHAR NOT NULL, name
                VARCHAR, external_port INTEGER, created_at FLOAT NOT NULL,
                UNIQUE (sandbox_id, port, protocol))""",
        ),
    ),
    Migration(
        4,
        "traces, episodes, uploads of both, and what searches find them by",
        (
            """CREATE TABLE trace_uploads (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, owner VARCHAR NOT NULL,
                digest VARCHAR NOT NULL, line_format VARCHAR NOT NULL, schema_version INTEGER
                NOT NULL, context VARCHAR NOT NULL, user_id VARCHAR NOT NULL, size INTEGER NOT
                NULL, cut BOOLEAN NOT NULL, created_at FLOAT NOT NULL, UNIQUE (owner, digest))""",
            "CREATE INDEX trace_uploads_by_digest ON trace_uploads (digest)",
            """CREATE TABLE traces (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, owner VARCHAR NOT NULL,
                trace_id VARCHAR NOT NULL, generation INTEGER NOT NULL, current BOOLEAN NOT
                NULL, searchable BOOLEAN NOT NULL, upload INTEGER NOT NULL, "offset" INTEGER NOT
                NULL, length INTEGER NOT NULL, created_at FLOAT NOT NULL, ingested_at FLOAT NOT
                NULL, episode_id VARCHAR, run_id VARCHAR, run_step INTEGER, environment_id
                VARCHAR, model_provider VARCHAR, model_id VARCHAR, task_id VARCHAR, agent_name
                VARCHAR, reward FLOAT, outcome VARCHAR, has_error BOOLEAN NOT NULL, is_truncated
                BOOLEAN NOT NULL, duration_ms INTEGER NOT NULL, total_tokens INTEGER NOT NULL,
                extras BLOB NOT NULL)""",
            "CREATE INDEX traces_by_episode ON traces (owner, episode_id)",
            "CREATE UNIQUE INDEX traces_by_id ON traces (owner, trace_id, generation)",
            "CREATE INDEX traces_by_run ON traces (owner, run_id, created_at)",
            "CREATE INDEX traces_by_time ON traces (owner, created_at)",
            "CREATE INDEX traces_by_upload ON traces (upload)",
            "CREATE INDEX traces_to_index ON traces (number) WHERE searchable = 0",
            """CREATE TABLE trace_episodes (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, owner VARCHAR NOT NULL,
                episode_id VARCHAR NOT NULL, generation INTEGER NOT NULL, current BOOLEAN NOT
                NULL, upload INTEGER NOT NULL, "offset" INTEGER NOT NULL, length INTEGER NOT
                NULL, created_at FLOAT NOT NULL, ingested_at FLOAT NOT NULL, run_id VARCHAR,
                environment_id VARCHAR, outcome VARCHAR, has_error BOOLEAN NOT NULL, error_type
                VARCHAR, error_message VARCHAR)""",
            """CREATE UNIQUE INDEX trace_episodes_by_id
                ON trace_episodes (owner, episode_id, generation)""",
            "CREATE INDEX trace_episodes_by_time ON trace_episodes (owner, created_at)",
            "CREATE INDEX trace_episodes_by_upload ON trace_episodes (upload)",
            """CREATE TABLE trace_texts (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, trace INTEGER NOT NULL)""",
            "CREATE INDEX trace_texts_by_trace ON trace_texts (trace)",
            """CREATE VIRTUAL TABLE trace_words USING fts5(
                text, tokenize = 'trigram case_sensitive 1', content = '', detail = 'none',
                columnsize = 0)""",
        ),
    ),
    Migration(
        5,
        "runs: training runs, metric rows, distributions, sample objects, spans",
        (
            "ALTER TABLE evaluations ADD COLUMN error_message VARCHAR",
            "ALTER TABLE evaluations ADD COLUMN lapsed BOOLEAN DEFAULT 0 NOT NULL",
            """CREATE TABLE training_runs (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, id VARCHAR NOT NULL UNIQUE,
                account_id VARCHAR NOT NULL, team_id VARCHAR, name VARCHAR NOT NULL, base_model
                VARCHAR NOT NULL, environments BLOB NOT NULL, run_config BLOB, summary BLOB,
                max_steps INTEGER NOT NULL, batch_size INTEGER, rollouts_per_example INTEGER,
                seq_len INTEGER, wandb_entity VARCHAR, wandb_project VARCHAR, wandb_run_name
                VARCHAR, status VARCHAR NOT NULL, error_message VARCHAR, lapsed BOOLEAN NOT NULL,
                created_at FLOAT NOT NULL, updated_at FLOAT NOT NULL, completed_at FLOAT)""",
            "CREATE INDEX training_runs_by_account ON training_runs (account_id)",
            "CREATE INDEX training_runs_by_team ON training_runs (team_id)",
            """CREATE TABLE metric_rows (
                number INTEGER NOT NULL PRIMARY KEY, kind VARCHAR NOT NULL, run INTEGER NOT NULL,
                step INTEGER, digest BLOB, data BLOB NOT NULL)""",
            "CREATE UNIQUE INDEX metric_rows_by_step ON metric_rows (kind, run, step)",
            "CREATE UNIQUE INDEX metric_rows_by_digest ON metric_rows (kind, run, digest)",
            """CREATE TABLE distributions (
                number INTEGER NOT NULL PRIMARY KEY, kind VARCHAR NOT NULL, run INTEGER NOT NULL,
                step INTEGER, name VARCHAR NOT NULL, digest BLOB, data BLOB NOT NULL, created_at
                FLOAT NOT NULL)""",
            "CREATE UNIQUE INDEX distributions_by_step ON distributions (kind, run, step, name)",
            """CREATE UNIQUE INDEX distributions_by_digest
                ON distributions (kind, run, name, digest)""",
            """CREATE TABLE sample_objects (
                number INTEGER NOT NULL PRIMARY KEY, key VARCHAR NOT NULL UNIQUE, run INTEGER NOT
                NULL, step INTEGER NOT NULL, format VARCHAR, size INTEGER NOT NULL, sha256 BLOB,
                token BLOB UNIQUE, expires_at FLOAT, confirmed BOOLEAN NOT NULL, created_at FLOAT
                NOT NULL)""",
            "CREATE INDEX sample_objects_by_step ON sample_objects (run, step)",
            "CREATE INDEX sample_objects_by_content ON sample_objects (run, step, sha256)",
            """CREATE TABLE otlp_spans (
                owner VARCHAR NOT NULL, trace_id VARCHAR NOT NULL, span_id VARCHAR NOT NULL,
                started_at FLOAT NOT NULL, data BLOB NOT NULL,
                PRIMARY KEY (owner, trace_id, span_id))""",
        ),
    ),
    Migration(
        6,
        "traces made of spans: what there is of them, and what is still to be made",
        (
            """CREATE TABLE otlp_traces (
                number INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, owner VARCHAR NOT NULL,
                trace_id VARCHAR NOT NULL, user_id VARCHAR NOT NULL, spans INTEGER NOT NULL,
                bytes INTEGER NOT NULL, made INTEGER NOT NULL, pending INTEGER NOT NULL,
                UNIQUE (owner, trace_id))""",
            "CREATE INDEX otlp_traces_to_make ON otlp_traces (owner) WHERE pending > 0",
            """INSERT INTO otlp_traces (owner, trace_id, user_id, spans, bytes, made, pending)
                SELECT owner, trace_id, owner, count(*), sum(length(data)), count(*), 0
                FROM otlp_spans GROUP BY owner, trace_id""",
        ),
    ),
    Migration(
        7,
        "indices for the filters of lists",
        (
            "DROP INDEX traces_by_episode",
            "CREATE INDEX traces_by_episode ON traces (owner, episode_id, created_at)",
            """CREATE INDEX traces_by_environment ON traces (owner, environment_id, created_at)
                WHERE current = 1 AND environment_id IS NOT NULL""",
            """CREATE INDEX traces_by_model ON traces (owner, model_id, created_at)
                WHERE current = 1 AND model_id IS NOT NULL""",
            """CREATE INDEX traces_by_task ON traces (owner, task_id, created_at)
                WHERE current = 1 AND task_id IS NOT NULL""",
            """CREATE INDEX traces_by_agent ON traces (owner, agent_name, created_at)
                WHERE current = 1 AND agent_name IS NOT NULL""",
            """CREATE INDEX traces_by_outcome ON traces (owner, outcome, created_at)
                WHERE current = 1 AND outcome IS NOT NULL""",
            """CREATE INDEX traces_with_error ON traces (owner, created_at)
                WHERE current = 1 AND has_error = 1""",
            """CREATE INDEX trace_episodes_by_run ON trace_episodes (owner, run_id, created_at)""",
            """CREATE INDEX sample_objects_to_confirm ON sample_objects (expires_at)
                WHERE confirmed = 0""",
        ),
    ),
)


def migrate(connection: Connection, migrations: tuple[Migration, ...] = MIGRATIONS) -> int:
    """Bring a database to the last step and return its number.

    Raises:
        LocalPlatformError: a newer version wrote this database.
    """
    current = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    last = migrations[-1].number
    if current > last:
        raise LocalPlatformError(
            f"the platform's database is at version {current}, this program knows {last}",
            hint="upgrade prime-async, or point it at another data folder",
        )
    for migration in migrations:
        if migration.number > current:
            _apply(connection, migration)
    return last


def _apply(connection: Connection, migration: Migration) -> None:
    connection.exec_driver_sql("BEGIN IMMEDIATE")
    try:
        for statement in migration.statements:
            connection.exec_driver_sql(statement)
        connection.exec_driver_sql(f"PRAGMA user_version = {migration.number}")
    except BaseException:
        connection.rollback()
        raise
    connection.commit()
