import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { FakeSocket } from "./fake-socket";
import { type Incoming, Link, type LinkState } from "./link";

let states: LinkState[];
let frames: Incoming[];
let link: Link;

beforeEach(() => {
  vi.useFakeTimers();
  FakeSocket.install();
  states = [];
  frames = [];
  link = new Link("ws://server/ws/conversations/1/", {
    onState: (state) => states.push(state),
    onOpen: () => {},
    onFrame: (frame) => frames.push(frame),
  });
});

afterEach(() => {
  link.stop();
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test("an attempt that hangs is given up after ten seconds, and the next one follows", () => {
  link.start();
  vi.advanceTimersByTime(9_999);
  expect(states.at(-1)).toMatchObject({ kind: "connecting" });

  vi.advanceTimersByTime(1);
  expect(states.at(-1)).toMatchObject({ kind: "waiting", attempt: 1 });
  vi.advanceTimersByTime(625);

  expect(FakeSocket.all).toHaveLength(2);
});

test("an answer to a ping keeps the connection and is nobody else's business", () => {
  link.start();
  FakeSocket.last.accept();
  for (let ping = 0; ping < 5; ping += 1) {
    FakeSocket.last.say({ type: "pong" });
    vi.advanceTimersByTime(20_000);
  }

  expect(FakeSocket.all).toHaveLength(1);
  expect(states.at(-1)).toEqual({ kind: "open" });
  expect(frames).toEqual([]);
});

test("any frame is an answer to a ping", () => {
  const live = { type: "live", available: true, message: "" } as const;
  link.start();
  FakeSocket.last.accept();

  FakeSocket.last.say(live);
  vi.advanceTimersByTime(8_000);

  expect(states.at(-1)).toEqual({ kind: "open" });
  expect(frames).toEqual([live]);
});

test.each([1001, 1006, 1011, 1012, 4403, 4408, 4429])("close code %i leads to another attempt", (code) => {
  link.start();
  FakeSocket.last.accept();
  FakeSocket.last.break(code);
  expect(states.at(-1)).toMatchObject({ kind: "waiting", attempt: 1 });

  vi.advanceTimersByTime(625);

  expect(FakeSocket.all).toHaveLength(2);
});

test("a link that was stopped stays stopped, whatever the browser says", () => {
  link.start();
  FakeSocket.last.accept();

  link.stop();
  window.dispatchEvent(new Event("offline"));
  window.dispatchEvent(new Event("online"));
  vi.advanceTimersByTime(60_000);

  expect(FakeSocket.all).toHaveLength(1);
  expect(FakeSocket.last.readyState).toBe(3);
  expect(states.at(-1)).toEqual({ kind: "closed" });
});
