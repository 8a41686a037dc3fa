import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { authStore } from "@/app/auth";

import { draftKey, draftRead, draftsFlush } from "./drafts";
import { FakeSocket } from "./fake-socket";
import { ChatSession } from "./session";
import type { MessageBody, RunBody, RunEvent } from "./types";

const ID = "22222222-2222-4222-8222-222222222222";
const RUN = "11111111-1111-4111-8111-111111111111";

let stored: MessageBody[];
let run: RunBody;
let active: boolean;
let session: ChatSession;
let answers: Record<string, (request: Request) => Response>;
let activity: number;

function message(seq: number, role: "user" | "assistant", content: string): MessageBody {
  return {
    id: seq,
    seq,
    turn: Math.ceil(seq / 2),
    role,
    content,
    status: "complete",
    tool_calls: [],
    tool_call_id: "",
    run_id: role === "assistant" ? RUN : null,
    metadata: {},
    created_at: "2026-01-01T00:00:00Z",
  };
}

function event(seq: number, type: string, data: object): RunEvent {
  return { seq, type, run_id: RUN, data } as unknown as RunEvent;
}

function json(body: unknown, status = 200): Response {
  return new Response(JSON.stringify(body), { status, headers: { "Content-Type": "application/json" } });
}

function conversation(): object {
  const head = stored.at(-1)?.seq ?? 0;
  return { id: ID, title: "", created_at: "", updated_at: "", head, active_run: active ? run : null };
}

/** Lets promises and the next painted frame happen. */
async function settle(): Promise<void> {
  await vi.advanceTimersByTimeAsync(50);
}

async function open(): Promise<FakeSocket> {
  session = new ChatSession(ID, {
    onCreated: () => {},
    onActivity: () => (activity += 1),
    onLoaded: () => {},
  });
  await settle();
  FakeSocket.last.accept();
  await settle();
  return FakeSocket.last;
}

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.install();
  authStore.setState({ user: { id: 7, username: "ada", display_name: "Ada" }, expired: false });
  stored = [message(1, "user", "first"), message(2, "assistant", "answer")];
  active = false;
  activity = 0;
  run = {
    id: RUN,
    conversation_id: ID,
    status: "running",
    epoch: "e1",
    user_message_seq: 3,
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
  answers = {};
  vi.stubGlobal("fetch", (request: Request) => {
    const url = new URL(request.url);
    const known = answers[`${request.method} ${url.pathname}`];
    if (known) return Promise.resolve(known(request));
    if (url.pathname.endsWith("/messages")) {
      const after = Number(url.searchParams.get("after") ?? 0);
      const results = stored.filter((one) => one.seq > after);
      return Promise.resolve(json({ results, has_before: false, has_after: false }));
    }
    if (url.pathname === `/api/runs/${RUN}`) return Promise.resolve(json(run));
    if (url.pathname === "/api/runs") return Promise.resolve(json({ results: [run], next: null }));
    return Promise.resolve(json(conversation()));
  });
});

afterEach(() => {
  session?.dispose();
  draftsFlush();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

/** Sends "second" and has it accepted. */
async function sendSecond(socket: FakeSocket): Promise<void> {
  session.setDraft("second");
  session.sendDraft();
  const sent = socket.commands.at(-1)!;
  stored.push(message(3, "user", "second"));
  active = true;
  socket.say({
    type: "accepted",
    client_key: sent.client_key as string,
    run,
    message: stored.at(-1)!,
    created: true,
  });
  socket.say({ type: "attached", run_id: RUN, epoch: "e1", after: 0 });
  await settle();
}

test("a message is sent with a key and the newest seq that was seen, and the answer's events are shown", async () => {
  const socket = await open();

  await sendSecond(socket);
  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  socket.say(event(2, "delta", { text: "Hel" }));
  socket.say(event(3, "delta", { text: "lo" }));
  await settle();

  expect(socket.commands).toMatchObject([{ type: "send", content: "second", expected_head: 2 }]);
  expect(session.state.live?.text).toBe("Hello");
  expect(session.state.pending).toBeNull();
  expect(session.state.announcement).toEqual({ text: "The answer has started", number: 1 });
});

test("steps have no events of their own messages: they are fetched before the turn is over", async () => {
  const socket = await open();
  await sendSecond(socket);
  const call = { id: "c", name: "t", label: "T", arguments: "{}" };
  const step = { ...message(4, "assistant", ""), turn: 2, tool_calls: [call] };
  const result = { ...message(5, "assistant", "ok"), turn: 2, role: "tool" as const, tool_call_id: "c" };
  const answer = { ...message(6, "assistant", "Hello"), turn: 2 };

  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  socket.say(event(2, "tool_call", call));
  socket.say(event(3, "tool_result", { id: "c", name: "t", ok: true, summary: "ok", duration_ms: 1 }));
  socket.say(event(4, "delta", { text: "Hello" }));
  stored = [...stored, message(3, "user", "second"), step, result, answer].filter(
    (one, index, all) => all.findIndex((other) => other.seq === one.seq) === index,
  );
  socket.say(event(5, "message", { message: answer }));
  socket.say(event(6, "close", { status: "completed" }));
  await settle();

  expect(session.state.live).toBeNull();
  expect(session.state.messages.map((one) => one.seq)).toEqual([1, 2, 3, 4, 5, 6]);
});

test("the stored message ends the turn and is announced once", async () => {
  const socket = await open();
  await sendSecond(socket);

  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  socket.say(event(2, "delta", { text: "Hello" }));
  await settle();
  socket.say(event(3, "message", { message: message(4, "assistant", "Hello") }));
  socket.say(event(4, "done", { status: "completed" }));
  socket.say(event(5, "close", { status: "completed" }));
  await settle();

  expect(session.state.live).toBeNull();
  expect(session.state.messages.map((one) => one.content)).toEqual(["first", "answer", "second", "Hello"]);
  expect(session.state.announcement).toEqual({ text: "The answer is complete", number: 2 });
  // The server may follow the same run once more; nothing of it is shown again.
  socket.say({ type: "attached", run_id: RUN, epoch: "e1", after: 0 });
  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  await settle();
  expect(session.state.live).toBeNull();
});

test("an event is missing: the run is attached to again after the last one that came", async () => {
  const socket = await open();
  await sendSecond(socket);
  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  await settle();

  socket.say(event(3, "delta", { text: "lo" }));
  await settle();

  expect(socket.commands.at(-1)).toEqual({ type: "attach", run_id: RUN, after: 1, epoch: "e1" });
});

test("C10: after a reconnect the run is attached to where it was left", async () => {
  const socket = await open();
  await sendSecond(socket);
  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  socket.say(event(2, "delta", { text: "Hel" }));
  await settle();

  socket.break(1012);
  await vi.advanceTimersByTimeAsync(1_000);
  FakeSocket.last.accept();
  await settle();

  expect(FakeSocket.last.commands).toEqual([{ type: "attach", run_id: RUN, after: 2, epoch: "e1" }]);
  expect(session.state.live?.text).toBe("Hel");
});

test("a page that is opened in the middle of an answer attaches from the beginning", async () => {
  stored.push(message(3, "user", "second"));
  active = true;

  const socket = await open();

  expect(socket.commands).toEqual([{ type: "attach", run_id: RUN, after: 0, epoch: null }]);
});

test("a message sent while disconnected goes out after reconnecting, with the same key however often", async () => {
  const socket = await open();
  socket.break(1012);
  session.send("from a train");
  await vi.advanceTimersByTimeAsync(1_000);
  const second = FakeSocket.last;
  second.accept();
  second.break(1006);
  await vi.advanceTimersByTimeAsync(2_500);
  FakeSocket.last.accept();

  expect(second.commands).toHaveLength(1);
  expect(FakeSocket.last.commands).toEqual(second.commands);
  expect(second.commands[0]).toMatchObject({ type: "send", content: "from a train" });
});

test("until a message is confirmed it is still a draft on disk; afterwards it is not", async () => {
  const socket = await open();
  session.setDraft("second");
  session.sendDraft();
  draftsFlush();
  expect(session.state.draft).toBe("");
  expect(draftRead(draftKey(7, ID))).toBe("second");

  socket.say({
    type: "accepted",
    client_key: socket.commands.at(-1)!.client_key as string,
    run,
    message: message(3, "user", "second"),
    created: true,
  });
  draftsFlush();

  expect(draftRead(draftKey(7, ID))).toBe("");
});

function refuse(socket: FakeSocket, code: string, retryable = false): void {
  socket.say({
    type: "refused",
    command: "send",
    client_key: socket.commands.at(-1)!.client_key as string,
    code,
    message: "It could not be taken",
    retryable,
    details: {},
  });
}

test("a refused message goes back into the box, before what was typed meanwhile", async () => {
  const socket = await open();
  session.setDraft("refuse me");
  session.sendDraft();
  session.setDraft("typed later");

  refuse(socket, "too_many", true);

  expect(session.state.draft).toBe("refuse me\n\ntyped later");
  expect(session.state.pending).toBeNull();
  expect(session.state.notice).toEqual({ text: "It could not be taken", action: "retry" });
});

test("a message that no frame can carry is refused here, in words, and stays in the box", async () => {
  const socket = await open();
  const before = socket.commands.length;
  session.setDraft("é".repeat(500_000));

  expect(session.sendDraft()).toBe(false);

  expect(socket.commands.length).toBe(before);
  expect(session.state.pending).toBeNull();
  expect(session.state.draft.length).toBe(500_000);
  expect(session.state.notice?.text).toContain("1,000 kB");
});

test("C27: newer messages elsewhere are offered, and the text is kept", async () => {
  const socket = await open();
  session.setDraft("stale");
  session.sendDraft();
  stored.push(message(3, "user", "elsewhere"), message(4, "assistant", "there"));

  refuse(socket, "head_moved");
  expect(session.state.draft).toBe("stale");
  expect(session.state.notice?.action).toBe("load_newer");
  session.loadNewer();
  await settle();

  expect(session.state.messages.map((one) => one.seq)).toEqual([1, 2, 3, 4]);
});

test("a turn that another tab has begun is shown, and the text is kept", async () => {
  const socket = await open();
  session.setDraft("too late");
  session.sendDraft();
  active = true;
  stored.push(message(3, "user", "elsewhere"));

  refuse(socket, "run_active");
  await settle();

  expect(session.state.draft).toBe("too late");
  expect(session.state.live?.runId).toBe(RUN);
  expect(socket.commands.at(-1)).toEqual({ type: "attach", run_id: RUN, after: 0, epoch: null });
});

test("C13: stop is shown at once; what had come is kept", async () => {
  const socket = await open();
  await sendSecond(socket);
  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  socket.say(event(2, "delta", { text: "Hel" }));
  await settle();

  session.stop();

  expect(session.state.stopping).toBe(true);
  expect(socket.commands.at(-1)).toEqual({ type: "stop", run_id: RUN });
  const partial = { ...message(4, "assistant", "Hel"), status: "stopped" as const };
  socket.say(event(3, "message", { message: partial }));
  socket.say(event(4, "done", { status: "cancelled" }));
  socket.say(event(5, "close", { status: "cancelled" }));
  await settle();
  expect(session.state.live).toBeNull();
  expect(session.state.messages.at(-1)).toEqual(partial);
  expect(session.state.failures[3]).toMatchObject({ status: "stopped" });
});

test("C12: a run that failed leaves its cause with its question", async () => {
  const socket = await open();
  await sendSecond(socket);
  const error = { code: "key_rejected", message: "The key was rejected", retryable: false, stalled: false };

  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  socket.say(event(2, "error", error));
  socket.say(event(3, "close", { status: "failed" }));
  await settle();

  expect(session.state.failures[3]).toEqual({ runId: RUN, status: "failed", error, seen: true });
});

test("without live updates the run is asked for every two seconds, until its stored answer is there", async () => {
  const socket = await open();
  await sendSecond(socket);
  socket.say({ type: "live", available: false, message: "" });
  expect(session.state.liveAvailable).toBe(false);
  await vi.advanceTimersByTimeAsync(2_100);
  expect(session.state.live).not.toBeNull();

  run = { ...run, status: "completed" };
  stored.push(message(4, "assistant", "all of it"));
  await vi.advanceTimersByTimeAsync(2_100);

  expect(session.state.live).toBeNull();
  expect(session.state.messages.at(-1)?.content).toBe("all of it");
});

/** A run with text, whose follower then says that live text is missing. */
async function goBlind(): Promise<FakeSocket> {
  const socket = await open();
  await sendSecond(socket);
  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  socket.say(event(2, "delta", { text: "Hel" }));
  socket.say({ type: "live", available: false, message: "" });
  await settle();
  expect(session.state.liveAvailable).toBe(false);
  return socket;
}

function countRunRequests(): () => number {
  let asked = 0;
  answers[`GET /api/runs/${RUN}`] = () => {
    asked += 1;
    return json(run);
  };
  return () => asked;
}

test("the end of a run takes back that live updates are missing, whichever way the end is learnt", async () => {
  const socket = await goBlind();
  socket.say(event(3, "message", { message: message(4, "assistant", "Hello") }));
  socket.say(event(4, "done", {}));
  socket.say(event(5, "close", { status: "completed" }));
  await settle();
  expect([session.state.live, session.state.liveAvailable]).toEqual([null, true]);
  session.dispose();

  stored = stored.slice(0, 2);
  await goBlind();
  run = { ...run, status: "completed" };
  stored.push(message(4, "assistant", "Hello"));
  await vi.advanceTimersByTimeAsync(2_100);

  expect([session.state.live, session.state.liveAvailable]).toEqual([null, true]);
});

test("a new connection takes back that live updates are missing, and the asking stops", async () => {
  const socket = await goBlind();
  socket.break(1012);
  await vi.advanceTimersByTimeAsync(1_000);
  expect(session.state.liveAvailable).toBe(false);

  FakeSocket.last.accept();
  await settle();

  expect(session.state.liveAvailable).toBe(true);
  const asked = countRunRequests();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(asked()).toBe(0);
});

test("whoever is followed anew counts as live until the server says otherwise", async () => {
  const socket = await goBlind();

  socket.say({ type: "attached", run_id: RUN, epoch: "e1", after: 2 });
  await settle();
  expect(session.state.liveAvailable).toBe(true);

  socket.say({ type: "live", available: false, message: "" });
  socket.say({
    type: "reset",
    run_id: RUN,
    epoch: "e1",
    run_status: "running",
    partial: { text: "Hello", seq: 4 },
  });
  await settle();
  expect([session.state.live?.text, session.state.liveAvailable]).toEqual(["Hello", false]);

  socket.say(event(7, "delta", { text: "!" }));
  await settle();
  expect(socket.commands.at(-1)).toMatchObject({ type: "attach", after: 4 });
  expect(session.state.liveAvailable).toBe(true);
});

test("with nothing being answered, missing live updates are not worth a word", async () => {
  const socket = await goBlind();
  run = { ...run, status: "completed" };
  stored.push(message(4, "assistant", "Hello"));
  await vi.advanceTimersByTimeAsync(2_100);
  expect(session.state.live).toBeNull();

  socket.say({ type: "live", available: false, message: "" });

  expect(session.state.liveAvailable).toBe(true);
});

test("while live updates come back and go, each state is shown", async () => {
  const socket = await goBlind();

  socket.say({ type: "live", available: true, message: "" });
  expect(session.state.liveAvailable).toBe(true);
  socket.say({ type: "live", available: false, message: "" });

  expect(session.state.liveAvailable).toBe(false);
});

/** Newer messages as the server would page them; what was asked for is kept. */
function pageNewer(pages: Record<number, { results: MessageBody[]; has_after: boolean }>): number[] {
  const asked: number[] = [];
  answers[`GET /api/conversations/${ID}/messages`] = (request) => {
    const after = Number(new URL(request.url).searchParams.get("after"));
    asked.push(after);
    if (asked.length > 20) throw new Error("asked again and again");
    return json({ has_before: true, ...(pages[after] ?? { results: [], has_after: true }) });
  };
  return asked;
}

test("newer messages are fetched page by page, also across a number that is missing for good", async () => {
  await open();
  const asked = pageNewer({
    2: { results: [message(3, "user", "c"), message(5, "user", "e")], has_after: true },
    5: { results: [message(6, "assistant", "f")], has_after: false },
  });

  await session.fetchNewer();

  expect(asked).toEqual([2, 5]);
  expect(session.state.messages.map((one) => one.seq)).toEqual([1, 2, 3, 5, 6]);
});

test("a page of newer messages that leads no further is the last one that is asked for", async () => {
  await open();
  const empty = pageNewer({});
  await session.fetchNewer();
  expect(empty).toEqual([2]);

  const same = pageNewer({ 2: { results: [message(2, "assistant", "answer")], has_after: true } });
  await session.fetchNewer();

  expect(same).toEqual([2]);
  expect(session.state.messages.map((one) => one.seq)).toEqual([1, 2]);
});

test("C8: the session ends: the message waits, and goes out after signing in again", async () => {
  const socket = await open();
  socket.break(4401);
  expect(authStore.getState().expired).toBe(true);
  session.send("written while signed out");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(FakeSocket.all).toHaveLength(1);

  authStore.getState().signedIn({ id: 7, username: "ada", display_name: "Ada" });
  FakeSocket.last.accept();

  expect(FakeSocket.all).toHaveLength(2);
  expect(FakeSocket.last.commands).toMatchObject([{ type: "send", content: "written while signed out" }]);
});

test("C8: a new chat's first message is kept when the session has ended, and sent after signing in", async () => {
  const created: string[] = [];
  answers["POST /api/conversations"] = () =>
    json({ code: "not_authenticated", detail: "Sign in first" }, 401);
  session = new ChatSession(null, {
    onCreated: (made) => created.push(made.id),
    onActivity: () => {},
    onLoaded: () => {},
  });
  session.setDraft("hello");
  session.sendDraft();
  await settle();
  expect(authStore.getState().expired).toBe(true);
  expect(session.state.pending?.content).toBe("hello");

  answers = {};
  authStore.getState().signedIn({ id: 7, username: "ada", display_name: "Ada" });
  await settle();
  FakeSocket.last.accept();

  expect(created).toEqual([ID]);
  expect(FakeSocket.last.commands).toMatchObject([{ type: "send", content: "hello", expected_head: 0 }]);
});

test("a run that begins while the steps of the one before are fetched stays on the page", async () => {
  const socket = await open();
  await sendSecond(socket);
  const call = { id: "c", name: "t", label: "T", arguments: "{}" };
  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  socket.say(event(2, "tool_call", call));
  socket.say(event(3, "message", { message: { ...message(6, "assistant", "Hello"), turn: 2 } }));
  await settle();
  socket.say(event(4, "close", { status: "completed" }));
  session.flush();
  const other = "33333333-3333-4333-8333-333333333333";
  socket.say({ type: "attached", run_id: other, epoch: "e2", after: 0 });
  await settle();
  expect(session.state.live?.runId).toBe(other);
});

test("steps that could not be fetched at the end are fetched by the next sync", async () => {
  const socket = await open();
  await sendSecond(socket);
  const call = { id: "c", name: "t", label: "T", arguments: "{}" };
  socket.say(event(1, "run_started", { conversation_id: ID, user_message_seq: 3, model: "m", epoch: "e1" }));
  socket.say(event(2, "tool_call", call));
  socket.say(event(3, "message", { message: { ...message(6, "assistant", "Hello"), turn: 2 } }));
  answers[`GET /api/conversations/${ID}/messages`] = () => json({}, 500);
  socket.say(event(4, "close", { status: "completed" }));
  await settle();
  delete answers[`GET /api/conversations/${ID}/messages`];
  stored = [
    message(1, "user", "first"),
    message(2, "assistant", "answer"),
    message(3, "user", "second"),
    { ...message(4, "assistant", ""), tool_calls: [call] },
    message(5, "assistant", "x"),
    message(6, "assistant", "Hello"),
  ];
  active = false;
  await session.sync();
  expect(session.state.messages.map((m) => m.seq)).toEqual([1, 2, 3, 4, 5, 6]);
});
