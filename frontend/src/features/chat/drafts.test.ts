import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { draftKey, draftRead, draftsFlush, draftWrite } from "./drafts";

beforeEach(() => vi.useFakeTimers());
afterEach(() => {
  draftsFlush();
  vi.useRealTimers();
});

test("a draft is written 150 ms after the last change, once", () => {
  const key = draftKey(1, "c1");

  draftWrite(key, "a");
  vi.advanceTimersByTime(149);
  draftWrite(key, "ab");
  vi.advanceTimersByTime(149);
  expect(localStorage.getItem(key)).toBeNull();
  vi.advanceTimersByTime(1);

  expect(localStorage.getItem(key)).toBe("ab");
});

test("what is not written yet is read all the same", () => {
  draftWrite(draftKey(1, "c1"), "just typed");

  expect(draftRead(draftKey(1, "c1"))).toBe("just typed");
});

test("C9: leaving the page writes at once", () => {
  draftWrite(draftKey(1, "c1"), "unsaved");

  window.dispatchEvent(new Event("pagehide"));

  expect(localStorage.getItem(draftKey(1, "c1"))).toBe("unsaved");
});

test("drafts belong to a person and a conversation", () => {
  const keys = [draftKey(1, null), draftKey(2, null), draftKey(1, "c1"), draftKey(1, "c2")];

  expect(new Set(keys).size).toBe(4);
});

test("an empty draft leaves nothing behind, and blocked storage loses no typing", () => {
  const key = draftKey(1, "c1");
  draftWrite(key, "text");
  draftsFlush();
  draftWrite(key, "");
  draftsFlush();
  expect(localStorage.getItem(key)).toBeNull();

  const blocked = vi.spyOn(Storage.prototype, "setItem").mockImplementation(() => {
    throw new DOMException("full");
  });
  draftWrite(key, "more");
  expect(() => draftsFlush()).not.toThrow();
  blocked.mockRestore();
});
