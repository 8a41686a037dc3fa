import { expect, test } from "vitest";

import { assembleRows, type RowsInput } from "./rows";
import { failuresOf, mergeMessages, needsRuns } from "./state";
import type { MessageBody, RunBody } from "./types";

function message(
  seq: number,
  role: "user" | "assistant",
  turn: number,
  runId: string | null = null,
): MessageBody {
  return {
    id: seq,
    seq,
    turn,
    role,
    content: `text ${seq}`,
    status: "complete",
    tool_calls: [],
    tool_call_id: "",
    run_id: runId,
    metadata: {},
    created_at: "2026-01-01T00:00:00Z",
  };
}

function keysOf(input: Partial<RowsInput>): string[] {
  return rowsOf(input).map((row) => row.key);
}

function rowsOf(input: Partial<RowsInput>) {
  return assembleRows({ messages: [], failures: {}, thoughts: {}, pending: null, live: null, ...input });
}

test("question and answer keep their keys from sending to stored", () => {
  const before = [message(1, "user", 1), message(2, "assistant", 1, "r1")];
  const asked = message(3, "user", 2);
  const pending = { clientKey: "k", content: "text 3", expectedHead: 2 };
  const live = { runId: "r2", userSeq: 3 };

  const sending = keysOf({ messages: before, pending });
  const running = keysOf({ messages: [...before, asked], live });
  const stored = keysOf({ messages: [...before, asked, message(4, "assistant", 2, "r2")], live });
  const ended = keysOf({ messages: [...before, asked, message(4, "assistant", 2, "r2")] });

  expect(sending).toEqual(["q1", "a1", "q2", "a2"]);
  expect([running, stored, ended]).toEqual([sending, sending, sending]);
});

test("a failed question has a row that says so, and the newest one can be asked again", () => {
  const failures = { 1: { runId: "r1", status: "failed" as const, error: null, seen: false } };

  const rows = rowsOf({ messages: [message(1, "user", 1)], failures });

  expect(rows[1]).toMatchObject({
    kind: "answer",
    message: null,
    live: false,
    failure: failures[1],
    question: "text 1",
  });
});

test("a question without an answer and without a reason has no empty answer", () => {
  expect(
    keysOf({ messages: [message(1, "user", 1), message(2, "user", 2), message(3, "assistant", 2)] }),
  ).toEqual(["q1", "q2", "a2"]);
});

test("a run of another tab is shown even before its question has come", () => {
  const rows = rowsOf({
    messages: [message(1, "user", 1), message(2, "assistant", 1, "r1")],
    live: { runId: "r2", userSeq: null },
  });

  expect(rows.map((row) => row.key)).toEqual(["q1", "a1", "a2"]);
  expect(rows[2]).toMatchObject({ live: true, message: null });
});

test("merging keeps order and replaces what is known", () => {
  const one = message(1, "user", 1);
  const other = { ...message(1, "user", 1), content: "new" };

  expect(
    mergeMessages([one, message(2, "assistant", 1)], [message(3, "user", 2)]).map((row) => row.seq),
  ).toEqual([1, 2, 3]);
  expect(
    mergeMessages([message(3, "user", 2)], [one, message(2, "assistant", 1)]).map((row) => row.seq),
  ).toEqual([1, 2, 3]);
  expect(mergeMessages([one], [other])[0]?.content).toBe("new");
});

test("runs are asked for only when something is unexplained", () => {
  const whole = [message(1, "user", 1), message(2, "assistant", 1)];

  expect(needsRuns(whole)).toBe(false);
  expect(needsRuns(whole.slice(0, 1))).toBe(true);
  expect(needsRuns([whole[0]!, { ...whole[1]!, status: "failed" }])).toBe(true);
});

test("of several runs of a question the newest explains it", () => {
  const run = { user_message_seq: 1, error: null } as RunBody;

  const failures = failuresOf([
    { ...run, id: "new", status: "interrupted" },
    { ...run, id: "old", status: "failed" },
  ]);

  expect(failures[1]).toMatchObject({ runId: "new", status: "interrupted" });
});
