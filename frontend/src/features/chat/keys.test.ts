import { expect, test } from "vitest";

import { isSendKey, type KeyPress } from "./keys";

const ENTER: KeyPress = {
  key: "Enter",
  shiftKey: false,
  altKey: false,
  ctrlKey: false,
  metaKey: false,
  keyCode: 13,
  isComposing: false,
};

test("Enter sends, Shift+Enter and Alt+Enter do not", () => {
  expect(isSendKey(ENTER, false)).toBe(true);
  expect(isSendKey({ ...ENTER, shiftKey: true }, false)).toBe(false);
  expect(isSendKey({ ...ENTER, altKey: true }, false)).toBe(false);
  expect(isSendKey({ ...ENTER, key: "a" }, false)).toBe(false);
});

test("C15: an Enter that ends an input method's composition never sends", () => {
  expect(isSendKey({ ...ENTER, isComposing: true }, false)).toBe(false);
  expect(isSendKey({ ...ENTER, keyCode: 229 }, false)).toBe(false);
  expect(isSendKey({ ...ENTER, keyCode: 229, ctrlKey: true }, false)).toBe(false);
});

test("C16: with a coarse pointer Enter adds a line, and Ctrl or ⌘ with Enter sends", () => {
  expect(isSendKey(ENTER, true)).toBe(false);
  expect(isSendKey({ ...ENTER, ctrlKey: true }, true)).toBe(true);
  expect(isSendKey({ ...ENTER, metaKey: true }, true)).toBe(true);
});
