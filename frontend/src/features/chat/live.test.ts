import { expect, test } from "vitest";

import { applyAttached, applyEvent, applyReset, freshRun, type LiveRun } from "./live";
import type { MessageBody, RunEvent } from "./types";

const RUN = "11111111-1111-4111-8111-111111111111";

const STORED: MessageBody = {
  id: 2,
  seq: 2,
  turn: 1,
  role: "assistant",
  content: "Hello, world!",
  status: "complete",
  tool_calls: [],
  tool_call_id: "",
  run_id: RUN,
  metadata: {},
  created_at: "2026-01-01T00:00:00Z",
};

function makeEvents(): RunEvent[] {
  const bodies = [
    {
      type: "run_started",
      data: { conversation_id: RUN, user_message_seq: 1, model: "m", epoch: "e1" },
    },
    { type: "status", data: { phase: "composing", label: "Composing the answer", seconds: null } },
    { type: "thinking", data: { text: "Let me " } },
    { type: "thinking", data: { text: "see. " } },
    { type: "delta", data: { text: "Hel" } },
    { type: "delta", data: { text: "lo, " } },
    { type: "delta", data: { text: "world" } },
    { type: "message", data: { message: STORED } },
    { type: "done", data: {} },
    { type: "close", data: { status: "completed" } },
  ];
  return bodies.map((body, index) => ({ seq: index + 1, run_id: RUN, ...body }) as unknown as RunEvent);
}

function take(events: RunEvent[], run: LiveRun = freshRun(RUN)): LiveRun {
  return events.reduce(applyEvent, run);
}

/** Numbers from 0 to below `limit`, the same ones every time. */
function makeRandom(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
    return Math.floor((state / 2_147_483_648) * limit);
  };
}

test("the events of a run add up to its text, its stored message and its end", () => {
  const run = take(makeEvents());

  expect(run.thinking).toBe("Let me see. ");
  expect(run.text).toBe("Hello, world!");
  expect(run.message).toEqual(STORED);
  expect(run.closed).toBe("completed");
  expect(run.seq).toBe(10);
  expect(run.epoch).toBe("e1");
  expect(run.userSeq).toBe(1);
});

test("C10: however the events are cut, repeated and replayed, the state is the same", () => {
  const events = makeEvents();
  const whole = take(events);

  for (let seed = 1; seed <= 300; seed += 1) {
    const random = makeRandom(seed);
    let run = freshRun(RUN);
    while (run.closed === null) {
      // A connection delivers from any earlier event on, up to anywhere, some of it twice.
      const from = random(run.seq + 1);
      const upto = from + 1 + random(events.length - from);
      const delivered = events
        .slice(from, upto)
        .flatMap((event) => (random(3) === 0 ? [event, event] : [event]));
      run = take(delivered, run);
    }

    expect(run).toEqual(whole);
  }
});

test("an event that comes too early changes nothing but asks for what is missing", () => {
  const events = makeEvents();
  const before = take(events.slice(0, 5));

  const gap = applyEvent(before, events[6]!);

  expect(gap).toEqual({ ...before, gap: true });
  expect(applyEvent(gap, events[7]!)).toBe(gap);
  const healed = take(
    events.slice(5),
    applyAttached(gap, { type: "attached", run_id: RUN, epoch: "e1", after: 5 }),
  );
  expect(healed).toEqual(take(events));
});

test("a reset replaces the text, and events go on after it", () => {
  const events = makeEvents();
  const before = take(events.slice(0, 5));

  const reset = applyReset(before, {
    type: "reset",
    run_id: RUN,
    epoch: "e1",
    run_status: "running",
    partial: { text: "Hello, ", seq: 6 },
  });

  expect([reset.text, reset.seq, reset.thinking]).toEqual(["Hello, ", 6, "Let me see. "]);
  expect(take(events.slice(6), reset).text).toBe("Hello, world!");
  expect(applyEvent(reset, events[4]!)).toBe(reset);
});

test("another log than before is read from its beginning", () => {
  const before = take(makeEvents().slice(0, 6));

  const again = applyAttached(before, { type: "attached", run_id: RUN, epoch: "e2", after: 0 });

  expect(again).toEqual({ ...freshRun(RUN, "e2"), seq: 0 });
});

test("nothing changes a run that is closed, nor do another run's events", () => {
  const closed = take(makeEvents());
  const more = { seq: 11, run_id: RUN, type: "delta", data: { text: "!" } } as RunEvent;

  expect(applyEvent(closed, more)).toBe(closed);
  const fresh = freshRun(RUN);
  expect(applyEvent(fresh, { ...more, seq: 1, run_id: "other" })).toBe(fresh);
});
