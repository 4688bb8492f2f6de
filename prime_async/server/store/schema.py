"""The tables as they are now; ``migrations.py`` says how a database gets there."""

from __future__ import annotations

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)

__all__ = [
    "accounts",
    "api_keys",
    "checkpoints",
    "distributions",
    "environments",
    "evaluation_environments",
    "evaluations",
    "exposures",
    "idempotency_keys",
    "leases",
    "metadata",
    "metric_rows",
    "otlp_spans",
    "pushes",
    "sample_chunks",
    "sample_objects",
    "sandbox_labels",
    "sandbox_uploads",
    "sandboxes",
    "team_members",
    "teams",
    "volume_mounts",
    "volumes",
    "training_runs",
]

metadata = MetaData()

accounts = Table(
    "accounts",
    metadata,
    Column("id", String, primary_key=True),
    Column("slug", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("email", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

# Keys are 128 bits or more of randomness, so a plain digest is enough to keep them unreadable.
api_keys = Table(
    "api_keys",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("account_id", String, nullable=False),
    Column("label", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

teams = Table(
    "teams",
    metadata,
    Column("id", String, primary_key=True),
    Column("slug", String, nullable=False, unique=True),
    Column("name", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

team_members = Table(
    "team_members",
    metadata,
    Column("team_id", String, primary_key=True),
    Column("account_id", String, primary_key=True),
    Column("role", String, nullable=False),
    Column("created_at", Float, nullable=False),
)

environments = Table(
    "environments",
    metadata,
    Column("id", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("name", String, nullable=False),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("visibility", String, nullable=False),
    Column("description", String),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    UniqueConstraint("owner", "name"),
)

# ``number`` gives the order of creation; ``metadata`` and ``metrics`` are the JSON text as it was
# sent.
evaluations = Table(
    "evaluations",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("name", String, nullable=False),
    Column("model_name", String),
    Column("dataset", String),
    Column("framework", String),
    Column("task_type", String),
    Column("description", String),
    Column("suite_id", String),
    Column("run_id", String),
    Column("is_public", Boolean, nullable=False),
    Column("tags", LargeBinary, nullable=False),
    Column("metadata", LargeBinary),
    Column("metrics", LargeBinary),
    Column("status", String, nullable=False),
    Column("total_samples", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("finalized_at", Float),
    Column("error_message", String),
    # Closed because its client was silent, not by its client: the client may come back.
    Column("lapsed", Boolean, nullable=False, server_default=text("0")),
    Index("evaluations_by_account", "account_id"),
    Index("evaluations_by_team", "team_id"),
    sqlite_autoincrement=True,
)

evaluation_environments = Table(
    "evaluation_environments",
    metadata,
    Column("evaluation", Integer, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("environment_id", String, nullable=False),
    Column("version_id", String),
    Index("evaluations_by_environment", "environment_id"),
)

# One row per push; ``number`` is the order of first arrival and so the first half of the samples'
# order.
pushes = Table(
    "pushes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("evaluation", Integer, nullable=False),
    Column("push_id", String, nullable=False),
    Column("stored", Integer, nullable=False),
    UniqueConstraint("evaluation", "push_id"),
    sqlite_autoincrement=True,
)

# Samples ``start .. start + count`` of one push, never overlapping: their JSON texts joined by
# commas, and where each one begins (uint32, little endian, one more for the end). ``data`` is last
# so that reading the rest skips it.
sample_chunks = Table(
    "sample_chunks",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("evaluation", Integer, nullable=False),
    Column("push", Integer, nullable=False),
    Column("start", Integer, nullable=False),
    Column("count", Integer, nullable=False),
    Column("offsets", LargeBinary, nullable=False),
    Column("data", LargeBinary, nullable=False),
    Index("sample_chunks_in_order", "evaluation", "push", "start", "count", unique=True),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("scope", String, primary_key=True),
    Column("key", String, primary_key=True),
    Column("fingerprint", LargeBinary, nullable=False),
    Column("status", Integer, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("expires_at", Float, nullable=False),
    Index("idempotency_keys_by_expiry", "expires_at"),
)

leases = Table(
    "leases",
    metadata,
    Column("token", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("subject", String, nullable=False),
    Column("owner", String, nullable=False),
    Column("action", String, nullable=False),
    Column("payload", LargeBinary, nullable=False),
    Column("expires_at", Float, nullable=False),
    Column("due_at", Float, nullable=False),
    Column("failures", Integer, nullable=False),
    UniqueConstraint("kind", "subject"),
    Index("leases_by_due_time", "due_at"),
    sqlite_autoincrement=True,
)

# ``spec`` is the request as it is shown again (secrets masked), ``runtime`` what it takes to adopt
# the sandbox: set as long as something of it may exist on this machine. All JSON texts.
# ``checkpoint_id`` is the checkpoint its next one will follow.
sandboxes = Table(
    "sandboxes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("name", String, nullable=False),
    Column("vm", Boolean, nullable=False),
    Column("status", String, nullable=False),
    Column("spec", LargeBinary, nullable=False),
    Column("labels", LargeBinary, nullable=False),
    Column("notes", LargeBinary, nullable=False),
    Column("limits", LargeBinary),
    Column("runtime", LargeBinary),
    Column("policy", LargeBinary, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("applied_generation", Integer, nullable=False),
    Column("request_key", String),
    Column("request_digest", LargeBinary),
    Column("exit_code", Integer),
    Column("error_type", String),
    Column("error_message", String),
    Column("termination_reason", String),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("started_at", Float),
    Column("terminated_at", Float),
    Column("checkpoint_id", String),
    UniqueConstraint("account_id", "request_key"),
    Index("sandboxes_by_account", "account_id"),
    Index("sandboxes_by_team", "team_id"),
    Index("sandboxes_by_status", "status"),
    sqlite_autoincrement=True,
)

sandbox_labels = Table(
    "sandbox_labels",
    metadata,
    Column("label", String, primary_key=True),
    Column("sandbox", Integer, primary_key=True),
)

# Uploads in flight, so that what a killed server or client left of them can be found and removed;
# ``path`` is the name inside, as bytes.
sandbox_uploads = Table(
    "sandbox_uploads",
    metadata,
    Column("upload_id", String, primary_key=True),
    Column("sandbox_id", String, nullable=False),
    Column("path", LargeBinary, nullable=False),
    Column("resumable", Boolean, nullable=False),
    Column("updated_at", Float, nullable=False),
    Index("sandbox_uploads_by_sandbox", "sandbox_id"),
)

# Of a sandbox, or, with a ``volume_id``, of a volume that was published from it. What is stored is
# a file named after the id; it counts when the state is DURABLE.
checkpoints = Table(
    "checkpoints",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("sandbox_id", String, nullable=False),
    Column("volume_id", String),
    Column("parent_id", String),
    Column("state", String, nullable=False),
    Column("depth", Integer, nullable=False),
    Column("docker_image", String, nullable=False),
    Column("disk_size_bytes", Integer, nullable=False),
    Column("stored_bytes", Integer),
    Column("occupied_bytes", Integer, nullable=False),
    Column("error", String),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Index("checkpoints_by_sandbox", "sandbox_id"),
    Index("checkpoints_by_volume", "volume_id"),
    sqlite_autoincrement=True,
)

# ``scope`` is the team or the account a name is unique in.
volumes = Table(
    "volumes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("scope", String, nullable=False),
    Column("name", String, nullable=False),
    Column("head_checkpoint_id", String),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("scope", "name"),
    sqlite_autoincrement=True,
)

# ``base_checkpoint_id`` is the head that the sandbox has seen: its own publish, or its start.
volume_mounts = Table(
    "volume_mounts",
    metadata,
    Column("sandbox_id", String, primary_key=True),
    Column("mount_path", String, primary_key=True),
    Column("volume_id", String, nullable=False),
    Column("read_only", Boolean, nullable=False),
    Column("base_checkpoint_id", String),
    Index("volume_mounts_by_volume", "volume_id"),
)

exposures = Table(
    "exposures",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("sandbox_id", String, nullable=False),
    Column("port", Integer, nullable=False),
    Column("protocol", String, nullable=False),
    Column("name", String),
    Column("external_port", Integer),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("sandbox_id", "port", "protocol"),
    sqlite_autoincrement=True,
)

# Runs that train elsewhere and report here; objects are the JSON text as it was sent. ``lapsed`` as
# for evaluations.
training_runs = Table(
    "training_runs",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("id", String, nullable=False, unique=True),
    Column("account_id", String, nullable=False),
    Column("team_id", String),
    Column("name", String, nullable=False),
    Column("base_model", String, nullable=False),
    Column("environments", LargeBinary, nullable=False),
    Column("run_config", LargeBinary),
    Column("summary", LargeBinary),
    Column("max_steps", Integer, nullable=False),
    Column("batch_size", Integer),
    Column("rollouts_per_example", Integer),
    Column("seq_len", Integer),
    Column("wandb_entity", String),
    Column("wandb_project", String),
    Column("wandb_run_name", String),
    Column("status", String, nullable=False),
    Column("error_message", String),
    Column("lapsed", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("updated_at", Float, nullable=False),
    Column("completed_at", Float),
    Index("training_runs_by_account", "account_id"),
    Index("training_runs_by_team", "team_id"),
    sqlite_autoincrement=True,
)

# Of evaluations (kind ``eval``) and training runs (``train``), by the run's number. One row per
# step; rows without a step are told apart by the digest of their text.
metric_rows = Table(
    "metric_rows",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("run", Integer, nullable=False),
    Column("step", Integer),
    Column("digest", LargeBinary),
    Column("data", LargeBinary, nullable=False),
    Index("metric_rows_by_step", "kind", "run", "step", unique=True),
    Index("metric_rows_by_digest", "kind", "run", "digest", unique=True),
)

# As metric rows, one per name.
distributions = Table(
    "distributions",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("kind", String, nullable=False),
    Column("run", Integer, nullable=False),
    Column("step", Integer),
    Column("name", String, nullable=False),
    Column("digest", LargeBinary),
    Column("data", LargeBinary, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("distributions_by_step", "kind", "run", "step", "name", unique=True),
    Index("distributions_by_digest", "kind", "run", "name", "digest", unique=True),
)

# Files of samples of training runs. ``token`` is the digest of what lets its holder upload one;
# ``sha256`` is set once the file is whole, ``confirmed`` once its owner said so.
sample_objects = Table(
    "sample_objects",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("key", String, nullable=False, unique=True),
    Column("run", Integer, nullable=False),
    Column("step", Integer, nullable=False),
    Column("format", String),
    Column("size", Integer, nullable=False),
    Column("sha256", LargeBinary),
    Column("token", LargeBinary, unique=True),
    Column("expires_at", Float),
    Column("confirmed", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    Index("sample_objects_by_step", "run", "step"),
    Index("sample_objects_by_content", "run", "step", "sha256"),
)

# Spans as they came over OTLP, by the account or team they belong to; a trace is made anew from all
# of its spans whenever some arrive.
otlp_spans = Table(
    "otlp_spans",
    metadata,
    Column("owner", String, primary_key=True),
    Column("trace_id", String, primary_key=True),
    Column("span_id", String, primary_key=True),
    Column("started_at", Float, nullable=False),
    Column("data", LargeBinary, nullable=False),
)

# Traces. ``owner`` is an account's id or ``team/<id>``. One row per upload: ``digest`` names the
# file of its lines, ``cut`` says that some of its rows have been deleted since.
trace_uploads = Table(
    "trace_uploads",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("owner", String, nullable=False),
    Column("digest", String, nullable=False),
    Column("line_format", String, nullable=False),
    Column("schema_version", Integer, nullable=False),
    Column("context", String, nullable=False),
    Column("user_id", String, nullable=False),
    Column("size", Integer, nullable=False),
    Column("cut", Boolean, nullable=False),
    Column("created_at", Float, nullable=False),
    UniqueConstraint("owner", "digest"),
    Index("trace_uploads_by_digest", "digest"),
    sqlite_autoincrement=True,
)

# One row per copy of a trace; ``current`` is the newest one, ``offset`` and ``length`` its place in
# its upload. ``extras`` is JSON that lists show. ``searchable`` says that its texts are indexed.
traces = Table(
    "traces",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("owner", String, nullable=False),
    Column("trace_id", String, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("current", Boolean, nullable=False),
    Column("searchable", Boolean, nullable=False),
    Column("upload", Integer, nullable=False),
    Column("offset", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("ingested_at", Float, nullable=False),
    Column("episode_id", String),
    Column("run_id", String),
    Column("run_step", Integer),
    Column("environment_id", String),
    Column("model_provider", String),
    Column("model_id", String),
    Column("task_id", String),
    Column("agent_name", String),
    Column("reward", Float),
    Column("outcome", String),
    Column("has_error", Boolean, nullable=False),
    Column("is_truncated", Boolean, nullable=False),
    Column("duration_ms", Integer, nullable=False),
    Column("total_tokens", Integer, nullable=False),
    Column("extras", LargeBinary, nullable=False),
    Index("traces_by_id", "owner", "trace_id", "generation", unique=True),
    Index("traces_by_time", "owner", "created_at"),
    Index("traces_by_run", "owner", "run_id", "created_at"),
    Index("traces_by_episode", "owner", "episode_id"),
    Index("traces_by_upload", "upload"),
    Index("traces_to_index", "number", sqlite_where=text("searchable = 0")),
    sqlite_autoincrement=True,
)

trace_episodes = Table(
    "trace_episodes",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("owner", String, nullable=False),
    Column("episode_id", String, nullable=False),
    Column("generation", Integer, nullable=False),
    Column("current", Boolean, nullable=False),
    Column("upload", Integer, nullable=False),
    Column("offset", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    Column("created_at", Float, nullable=False),
    Column("ingested_at", Float, nullable=False),
    Column("run_id", String),
    Column("environment_id", String),
    Column("outcome", String),
    Column("has_error", Boolean, nullable=False),
    Column("error_type", String),
    Column("error_message", String),
    Index("trace_episodes_by_id", "owner", "episode_id", "generation", unique=True),
    Index("trace_episodes_by_time", "owner", "created_at"),
    Index("trace_episodes_by_upload", "upload"),
    sqlite_autoincrement=True,
)

# Pieces of the texts of a trace. The words in them are in the full-text table ``trace_words``,
# under the same number; it keeps no text, and what it says of numbers that are gone is passed over.
trace_texts = Table(
    "trace_texts",
    metadata,
    Column("number", Integer, primary_key=True),
    Column("trace", Integer, nullable=False),
    Index("trace_texts_by_trace", "trace"),
    sqlite_autoincrement=True,
)
