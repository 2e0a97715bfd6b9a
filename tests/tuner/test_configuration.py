"""The saved configuration: schema, checksum, names, atomic writing."""

import errno
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tuner_fakes import GQA, configuration, row

from costmodel import Attention
from costmodel.record import RecordedDevice
from tuner.attention_fields import attention_fields
from tuner.configuration import Configuration, ConfigurationError, Provenance, dumps, loads, read, write
from tuner.filename import configuration_name

H200 = RecordedDevice(name="NVIDIA H200", cc="9.0", sms=132, memory_mib=143771, driver="580.159")


@pytest.mark.parametrize(
    ("attention", "name"),
    [
        (GQA, "attn,device_name=NVIDIA_H200,family=gqa,qo=32,kv=8,hd=128,dtype=bf16,kv_dtype=auto.json"),
        (
            Attention.mla(num_qo_heads=128),
            "attn,device_name=NVIDIA_H200,family=mla,qo=128,kv=1,hd=576,vd=512,dtype=bf16,kv_dtype=auto.json",
        ),
        (
            Attention(64, 8, 64, sliding_window=128, sinks=True, kv_dtype="fp8_e4m3"),
            "attn,device_name=NVIDIA_H200,family=gqa,qo=64,kv=8,hd=64,window=128,sinks=1,dtype=bf16,kv_dtype=fp8_e4m3.json",
        ),
        (
            Attention(16, 16, 256, logit_soft_cap=50.0, chunk_size=8192),
            "attn,device_name=NVIDIA_H200,family=mha,qo=16,kv=16,hd=256,chunk=8192,softcap=50,dtype=bf16,kv_dtype=auto.json",
        ),
    ],
)
def test_file_names(attention: Attention, name: str) -> None:
    assert configuration_name(H200, attention) == name


attentions = st.builds(
    Attention,
    num_qo_heads=st.sampled_from([8, 16]),
    num_kv_heads=st.sampled_from([1, 8]),
    head_dim=st.sampled_from([64, 128]),
    v_head_dim=st.sampled_from([None, 32]),
    kv_dtype=st.sampled_from(["bf16", "fp8_e4m3"]),
    sliding_window=st.sampled_from([None, 128]),
    chunk_size=st.sampled_from([None, 512]),
    sinks=st.booleans(),
    logit_soft_cap=st.sampled_from([None, 30.0]),
    causal=st.booleans(),
    top_k=st.sampled_from([None, 64]),
)


@given(attentions, attentions, st.sampled_from([1, 64]), st.sampled_from([1, 64]))
def test_different_requests_never_share_a_file(a: Attention, b: Attention, page_a: int, page_b: int) -> None:
    same_name = configuration_name(H200, a, page_a) == configuration_name(H200, b, page_b)
    assert same_name == ((a, page_a) == (b, page_b))


@given(attentions)
def test_attention_survives_the_file(attention: Attention) -> None:
    assert Attention(**json.loads(json.dumps(attention_fields(attention)))) == attention


def test_round_trip(tmp_path: Path) -> None:
    made = configuration([row("8q1s4k"), row("q2k"), row("2q4s4k")])
    path = write(made, tmp_path)
    assert path.name == made.file_name
    assert read(path) == made


def test_the_name_of_the_file_does_not_matter(tmp_path: Path) -> None:
    made = configuration([row()])
    assert read(write(made, tmp_path, "anything.json")) == made


def test_keys_follow_the_contract() -> None:
    made = configuration([row("8q1s4k"), row("q2k"), row("2q512s8k"), row("q1s1k_q1s3k")])
    assert set(made.decode) == {"8:4096", "2:2048:3072"}
    assert set(made.extend) == {"1:2048:2048", "2:512:8192"}


def break_checksum(data: dict[str, Any]) -> None:
    data["provenance"]["seed"] = 99


def break_schema(data: dict[str, Any]) -> None:
    data["schema_version"] = 99


def remove_attention(data: dict[str, Any]) -> None:
    del data["attention"]


@pytest.mark.parametrize(
    ("change", "message"),
    [(break_checksum, "checksum"), (break_schema, "schema_version 99"), (remove_attention, "not an attnroof")],
)
def test_altered_files_are_refused(change: Any, message: str, tmp_path: Path) -> None:
    data = json.loads(dumps(configuration([row()])))
    change(data)
    path = tmp_path / "c.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ConfigurationError, match=message):
        read(path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"8": {"num_warps": 4}}', "\x00\x01", '{"schema_version": 1}']
)
def test_foreign_and_damaged_files_are_refused(text: str) -> None:
    with pytest.raises(ConfigurationError):
        loads(text)


@given(st.integers(0, 4000))
def test_a_truncated_file_is_refused(length: int) -> None:
    text = dumps(configuration([row()]))
    if length < len(text) - 1:
        with pytest.raises(ConfigurationError):
            loads(text[:length])


def test_unreadable_places(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no file"):
        read(tmp_path / "missing.json")
    with pytest.raises(ConfigurationError, match="cannot read"):
        read(tmp_path)


def test_full_disk_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = configuration([row()])
    path = write(made, tmp_path)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("tuner.configuration.os.fsync", full)
    with pytest.raises(ConfigurationError, match="No space left"):
        write(made.with_rows([row("q2k")]), tmp_path)
    assert read(path) == made
    assert list(tmp_path.iterdir()) == [path]


def test_a_row_of_another_library_version_is_kept_aside() -> None:
    old, new = row(version="3.0.0"), row(version="3.1.0")
    made = configuration([old]).with_rows([new])
    assert made.decode["8:4096"] == new
    assert made.superseded == (old,)


def test_a_row_of_the_same_version_is_replaced() -> None:
    made = configuration([row()]).with_rows([row()])
    assert made.superseded == ()


def test_configuration_needs_no_default_tables() -> None:
    empty = Configuration(
        device=H200, attention=attention_fields(GQA), provenance=Provenance(tool="t", created="c", command="x")
    )
    assert loads(dumps(empty)).rows == ()


def test_deep_nesting_is_said_as_such() -> None:
    text = '{"schema_version": 1, "attention": ' + 100_000 * "[" + 100_000 * "]" + "}"
    with pytest.raises(ConfigurationError, match="nested too deeply"):
        loads(text)
