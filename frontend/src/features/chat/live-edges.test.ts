import { expect, test } from "vitest";

import { applyAttached, applyEvent, applyReset, freshRun, type LiveRun } from "./live";
import type { RunEvent } from "./types";

const RUN = "11111111-1111-4111-8111-111111111111";
const BUSY = { phase: "composing", label: "Composing the answer", seconds: null };
const FAULT = { code: "key_rejected", message: "The key was rejected", retryable: false };

function makeEvents(...bodies: [string, object][]): RunEvent[] {
  return bodies.map(
    ([type, data], index) => ({ seq: index + 1, run_id: RUN, type, data }) as unknown as RunEvent,
  );
}

const EVENTS = makeEvents(
  ["run_started", { conversation_id: RUN, user_message_seq: 1, model: "m", epoch: "e1" }],
  ["status", BUSY],
  ["thinking", { text: "Hm. " }],
  ["context", {}],
  ["delta", { text: "Half an " }],
  ["delta", { text: "answer" }],
  ["error", FAULT],
  ["close", { status: "failed" }],
);

function take(events: RunEvent[], run: LiveRun = freshRun(RUN)): LiveRun {
  return events.reduce(applyEvent, run);
}

test("C10: cut in two anywhere, with any part of the beginning sent again, the events add up to the same", () => {
  const whole = take(EVENTS);

  for (let cut = 0; cut <= EVENTS.length; cut += 1) {
    for (let from = 0; from <= cut; from += 1) {
      expect(take(EVENTS.slice(from), take(EVENTS.slice(0, cut)))).toEqual(whole);
    }
  }
});

test("C12: an error is kept with what had been written, and the close ends it", () => {
  const failing = take(EVENTS.slice(0, 7));
  const closed = take(EVENTS);

  expect([failing.error, failing.closed, failing.text]).toEqual([FAULT, null, "Half an answer"]);
  expect([closed.error, closed.closed, closed.gap]).toEqual([FAULT, "failed", false]);
});

test("C11: a status stands until output follows it", () => {
  const busy = take(EVENTS.slice(0, 2));
  const answering = makeEvents(["status", BUSY], ["status", BUSY], ["delta", { text: "a" }]);

  expect(busy.status).toEqual(BUSY);
  expect(take(EVENTS.slice(2, 3), busy).status).toBeNull();
  expect(take(answering).status).toBeNull();
});

test("an event of a kind that is not known yet is counted and changes nothing else", () => {
  const before = take(EVENTS.slice(0, 3));

  expect(applyEvent(before, EVENTS[3]!)).toEqual({ ...before, seq: 4 });
});

test("a reset to the very beginning forgets the thoughts, as they are sent again", () => {
  const before = take(EVENTS.slice(0, 5));
  const frame = { type: "reset", run_id: RUN, epoch: "e2", run_status: "running" } as const;

  const again = applyReset(before, { ...frame, partial: { text: "", seq: 0 } });

  expect([again.thinking, again.text, again.seq, again.epoch]).toEqual(["", "", 0, "e2"]);
  expect(take(EVENTS, again).thinking).toBe("Hm. ");
});

test("a gap heals by a reset as well", () => {
  const gap = take([...EVENTS.slice(0, 3), EVENTS[5]!]);
  expect(gap.gap).toBe(true);

  const healed = applyReset(gap, {
    type: "reset",
    run_id: RUN,
    epoch: "e1",
    run_status: "running",
    partial: { text: "Half an answer", seq: 6 },
  });

  expect(healed.gap).toBe(false);
  expect(take(EVENTS.slice(6), healed)).toEqual(take(EVENTS));
});

test("neither being attached nor a reset opens a closed run again", () => {
  const closed = take(EVENTS);

  expect(applyAttached(closed, { type: "attached", run_id: RUN, epoch: "e2", after: 0 })).toBe(closed);
  expect(
    applyReset(closed, {
      type: "reset",
      run_id: RUN,
      epoch: "e2",
      run_status: "failed",
      partial: { text: "", seq: 0 },
    }),
  ).toBe(closed);
});
