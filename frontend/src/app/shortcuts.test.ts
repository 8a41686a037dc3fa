import { expect, test } from "vitest";

import { findShortcut } from "./shortcuts";

const NONE = { key: "", code: "", shiftKey: false, altKey: false, ctrlKey: false, metaKey: false };

test("shortcuts work with Ctrl and with ⌘, and by the key's place on other keyboards", () => {
  expect(findShortcut({ ...NONE, key: "O", code: "KeyO", ctrlKey: true, shiftKey: true })).toBe("newChat");
  expect(findShortcut({ ...NONE, key: "O", code: "KeyO", metaKey: true, shiftKey: true })).toBe("newChat");
  expect(findShortcut({ ...NONE, key: "Ы", code: "KeyS", ctrlKey: true, shiftKey: true })).toBe(
    "toggleSidebar",
  );
  expect(findShortcut({ ...NONE, key: "Escape", shiftKey: true })).toBe("focusMessageBox");
});

test("the browser's own keys are left alone", () => {
  expect(findShortcut({ ...NONE, key: "s", code: "KeyS", ctrlKey: true })).toBeNull();
  expect(findShortcut({ ...NONE, key: "C", code: "KeyC", ctrlKey: true, shiftKey: true })).toBeNull();
  expect(findShortcut({ ...NONE, key: "Escape" })).toBeNull();
});
