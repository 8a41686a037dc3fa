import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { authStore } from "@/app/auth";

import { draftKey, draftRead, draftsFlush } from "./drafts";
import { FakeSocket } from "./fake-socket";
import { applyEvent, freshRun } from "./live";
import { assembleRows } from "./rows";
import { ChatSession } from "./session";
import type { MessageBody, RunBody, RunEvent, SteerBody } from "./types";

const ID = "22222222-2222-4222-8222-222222222222";
const RUN = "11111111-1111-4111-8111-111111111111";
const NEXT = "33333333-3333-4333-8333-333333333333";
const STEER = "44444444-4444-4444-8444-444444444444";

let session: ChatSession;
let socket: FakeSocket;
let stored: MessageBody[];
let activities: number;

function message(seq: number, fields: Partial<MessageBody>): MessageBody {
  return {
    id: seq,
    seq,
    turn: 1,
    role: "user",
    content: "",
    status: "complete",
    tool_calls: [],
    tool_call_id: "",
    run_id: null,
    metadata: {},
    created_at: "2026-01-01T00:00:00Z",
    ...fields,
  };
}

const STEERED = message(4, { content: "in euros", run_id: RUN, metadata: { steered: true } });
const CALLING = message(2, {
  role: "assistant",
  run_id: RUN,
  tool_calls: [{ id: "c", name: "find", label: "Finding", arguments: "{}" }],
});
const RESULT = message(3, { role: "tool", tool_call_id: "c", run_id: RUN, metadata: { ok: true } });

function run(id: string, userSeq: number): RunBody {
  return {
    id,
    conversation_id: ID,
    status: "running",
    epoch: "e1",
    user_message_seq: userSeq,
    model: "m",
    created_at: "2026-01-01T00:00:00Z",
    started_at: null,
    finished_at: null,
    cancel_requested: false,
    finish_reason: null,
    final_seq: null,
    usage: null,
    timings: null,
    error: null,
  };
}

function steer(fields: Partial<SteerBody> = {}): SteerBody {
  return {
    id: STEER,
    run_id: RUN,
    client_key: null,
    content: "in euros",
    status: "waiting",
    seq: null,
    created_at: "2026-01-01T00:00:00Z",
    ...fields,
  };
}

function event(seq: number, type: string, data: object, id = RUN): RunEvent {
  return { seq, type, run_id: id, data } as unknown as RunEvent;
}

function refused(clientKey: unknown, code: string, why = "no"): void {
  const details = { run_id: RUN };
  const frame = { type: "refused", command: "steer", client_key: clientKey, code, message: why, details };
  socket.say({ ...frame, retryable: false } as never);
}

async function settle(): Promise<void> {
  await vi.advanceTimersByTimeAsync(50);
}

beforeEach(async () => {
  vi.useFakeTimers();
  FakeSocket.install();
  authStore.setState({ user: { id: 7, username: "ada", display_name: "Ada" }, expired: false });
  stored = [message(1, { content: "What does it cost?" })];
  const answer = (request: Request): Response => {
    if (request.url.includes("/api/runs")) return new Response('{"results": [], "next": null}');
    const body = request.url.includes("/messages")
      ? { results: stored, has_before: false, has_after: false }
      : { id: ID, title: "", created_at: "", updated_at: "", head: 1, active_run: run(RUN, 1) };
    return new Response(JSON.stringify(body), { headers: { "Content-Type": "application/json" } });
  };
  vi.stubGlobal("fetch", (request: Request) => Promise.resolve(answer(request)));
  activities = 0;
  session = new ChatSession(ID, { onCreated: () => {}, onActivity: () => activities++, onLoaded: () => {} });
  await settle();
  socket = FakeSocket.last;
  socket.accept();
  await settle();
  socket.sent.length = 0;
});

afterEach(() => {
  session.dispose();
  draftsFlush();
  vi.useRealTimers();
  vi.unstubAllGlobals();
  localStorage.clear();
});

test("RUN-07: what is sent while an answer is written goes to that answer, and the box is free again", () => {
  session.setDraft("in euros");

  expect(session.sendDraft()).toBe(true);

  const [sent] = socket.commands;
  expect(sent).toMatchObject({ type: "steer", run_id: RUN, content: "in euros" });
  expect(session.state.draft).toBe("");
  expect(session.state.steering).toEqual([{ clientKey: sent!.client_key, content: "in euros" }]);
});

test("once the server keeps it, it waits in the server's list until it is taken in", async () => {
  session.setDraft("in euros");
  session.sendDraft();
  const key = socket.commands[0]!.client_key as string;

  socket.say({ type: "steering", client_key: key, steer: steer({ client_key: key }), withdrawn: false });
  socket.say({ type: "waiting", run_id: RUN, steers: [steer({ client_key: key })] });
  await settle();
  expect(session.state.steering).toEqual([]);
  expect(session.state.waiting?.steers.map(({ content }) => content)).toEqual(["in euros"]);

  socket.say(event(1, "run_started", { user_message_seq: 1, epoch: "e1" }));
  socket.say(event(2, "steer", { steer_id: STEER, message: STEERED }));
  await settle();
  expect(session.state.waiting?.steers).toEqual([]);
  expect(session.state.live?.steps.map(({ state, said }) => [state, said])).toEqual([["aside", "in euros"]]);
});

test("what was not confirmed before the connection broke is sent again under the same key", async () => {
  session.setDraft("in euros");
  session.sendDraft();
  const key = socket.commands[0]!.client_key;

  socket.break(1006);
  await vi.advanceTimersByTimeAsync(5_000);
  FakeSocket.last.accept();

  const again = FakeSocket.last.commands.filter(({ type }) => type === "steer");
  expect(again.map(({ client_key }) => client_key)).toEqual([key]);
});

test("until it is confirmed, a reload would give it back", () => {
  session.setDraft("in euros");
  session.sendDraft();
  session.setDraft("and");
  draftsFlush();

  expect(draftRead(draftKey(7, ID))).toBe("in euros\n\nand");
});

test("a run that has just ended makes it a turn of its own, under the same key", () => {
  session.setDraft("in euros");
  session.sendDraft();
  const key = socket.commands[0]!.client_key;

  refused(key, "run_ended");

  expect(socket.commands.at(-1)).toMatchObject({ type: "send", client_key: key, content: "in euros" });
  expect(session.state.steering).toEqual([]);
  expect(session.state.pending?.content).toBe("in euros");
});

test("another run that has begun meanwhile gets it", () => {
  session.setDraft("in euros");
  session.sendDraft();
  const key = socket.commands[0]!.client_key;
  session.begin(freshRun(NEXT));

  refused(key, "run_ended");

  expect(socket.commands.at(-1)).toMatchObject({ type: "steer", run_id: NEXT, client_key: key });
});

test("one that cannot be sent returns to the box with the reason", () => {
  session.setDraft("in euros");
  session.sendDraft();
  session.setDraft("more");

  refused(socket.commands[0]!.client_key, "too_many_requests", "Too many messages wait");

  expect(session.state.draft).toBe("in euros\n\nmore");
  expect(session.state.notice?.text).toBe("Too many messages wait");
  expect(session.state.steering).toEqual([]);
});

test("taking one back puts its text into the box", () => {
  socket.say({ type: "waiting", run_id: RUN, steers: [steer()] });

  session.withdraw(STEER);
  socket.say({ type: "steering", client_key: null, steer: steer(), withdrawn: true });
  socket.say({ type: "waiting", run_id: RUN, steers: [] });

  expect(socket.commands).toEqual([{ type: "withdraw", steer_id: STEER }]);
  expect(session.state.draft).toBe("in euros");
  expect(session.state.waiting?.steers).toEqual([]);
});

test("stored, it stands among the steps where it was taken in, and begins no row", () => {
  const answer = message(5, { role: "assistant", content: "12 euros", run_id: RUN });
  const rows = assembleRows({
    messages: [...stored, CALLING, RESULT, STEERED, answer],
    failures: {},
    thoughts: {},
    pending: null,
    live: null,
  });

  expect(rows.map(({ kind, key }) => [kind, key])).toEqual([
    ["question", "q1"],
    ["answer", "a1"],
  ]);
  const [, last] = rows;
  expect(last?.kind === "answer" && last.steps.map(({ state }) => state)).toEqual(["ok", "aside"]);
});

test("live and stored, the steps are the same", () => {
  const called = { id: "c", name: "find", label: "Finding", arguments: "{}" };
  const returned = { id: "c", name: "find", ok: true, summary: "", duration_ms: 0 };
  const live = [
    event(1, "tool_call", called),
    event(2, "tool_result", returned),
    event(3, "steer", { steer_id: STEER, message: STEERED }),
  ].reduce(applyEvent, freshRun(RUN));
  const answer = message(5, { role: "assistant", content: "12 euros", run_id: RUN });
  const rows = assembleRows({
    messages: [...stored, CALLING, RESULT, STEERED, answer],
    failures: {},
    thoughts: {},
    pending: null,
    live: null,
  });

  const last = rows.at(-1);
  expect(last?.kind === "answer" && last.steps).toEqual(live.steps);
});

test("RUN-32: a new title has the list of conversations read again", async () => {
  const before = activities;

  socket.say({ type: "titled", title: "Rent in Bergen" });
  await settle();

  expect(activities).toBe(before + 1);
});
