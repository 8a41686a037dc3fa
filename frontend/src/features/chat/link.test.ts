import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { FakeSocket } from "./fake-socket";
import { type Incoming, Link, type LinkState, pauseBefore } from "./link";

let states: LinkState[];
let frames: Incoming[];
let opened: number;
let link: Link;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.install();
  states = [];
  frames = [];
  opened = 0;
  link = new Link("ws://server/ws/conversations/1/", {
    onState: (state) => states.push(state),
    onOpen: () => (opened += 1),
    onFrame: (frame) => frames.push(frame),
  });
});

afterEach(() => {
  link.stop();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("pauses double from half a second to fifteen seconds, with up to a quarter of jitter", () => {
  expect([1, 2, 3, 6, 20].map((attempt) => pauseBefore(attempt, 0))).toEqual([
    500, 1_000, 2_000, 15_000, 15_000,
  ]);
  expect(pauseBefore(1, 1)).toBe(625);
});

test("a lost connection is opened again after a pause, and the pauses start over once it works", () => {
  link.start();
  FakeSocket.last.accept();
  FakeSocket.last.break(1012);
  expect(states.at(-1)).toMatchObject({ kind: "waiting", attempt: 1 });

  vi.advanceTimersByTime(700);
  expect(FakeSocket.all).toHaveLength(2);
  FakeSocket.last.break(1006);
  expect(states.at(-1)).toMatchObject({ kind: "waiting", attempt: 2 });
  vi.advanceTimersByTime(1_300);
  FakeSocket.last.accept();
  FakeSocket.last.say({ type: "pong" });
  FakeSocket.last.break(1001);

  expect(states.at(-1)).toMatchObject({ kind: "waiting", attempt: 1 });
  expect(opened).toBe(2);
});

test("retrying now does not wait for the pause", () => {
  link.start();
  FakeSocket.last.break(1006);

  link.retryNow();

  expect(FakeSocket.all).toHaveLength(2);
  vi.advanceTimersByTime(60_000 - 51_000);
  expect(FakeSocket.all).toHaveLength(2);
});

test("a connection that answers no ping is given up", () => {
  link.start();
  FakeSocket.last.accept();
  expect(FakeSocket.last.sent).toEqual([{ type: "ping" }]);
  FakeSocket.last.say({ type: "pong" });
  vi.advanceTimersByTime(20_000);
  expect(FakeSocket.last.sent).toHaveLength(2);

  vi.advanceTimersByTime(8_000);

  expect(states.at(-1)).toMatchObject({ kind: "waiting" });
});

test("without a session, or without the conversation, it does not try again", () => {
  link.start();
  FakeSocket.last.accept();
  FakeSocket.last.break(4401);
  expect(states.at(-1)).toEqual({ kind: "signed_out" });
  vi.advanceTimersByTime(60_000);
  expect(FakeSocket.all).toHaveLength(1);

  link.retryNow();
  FakeSocket.last.break(4404);

  expect(states.at(-1)).toEqual({ kind: "gone" });
});

test("offline is said at once, and being online again connects at once", () => {
  link.start();
  FakeSocket.last.accept();

  window.dispatchEvent(new Event("offline"));
  expect(states.at(-1)).toEqual({ kind: "offline" });
  expect(link.send({ type: "ping" })).toBe(false);
  window.dispatchEvent(new Event("online"));

  expect(FakeSocket.all).toHaveLength(2);
});

test("frames of a connection that was given up are not heard", () => {
  link.start();
  const old = FakeSocket.last;
  old.accept();
  old.break(1006);
  old.say({ type: "live", available: true, message: "" });

  expect(frames).toEqual([]);
});
