/** Which key presses in the message box mean "send". */

export interface KeyPress {
  key: string;
  shiftKey: boolean;
  altKey: boolean;
  ctrlKey: boolean;
  metaKey: boolean;
  keyCode: number;
  isComposing: boolean;
}

/**
 * Enter sends, Shift+Enter adds a line, Ctrl or ⌘ with Enter sends on any device. With a coarse pointer Enter adds a line,
 * as phone keyboards have no Shift+Enter. While an input method composes, Enter belongs to it: browsers say so by
 * `isComposing`, Safari by key code 229 as well.
 */
export function isSendKey(press: KeyPress, coarsePointer: boolean): boolean {
  if (press.key !== "Enter" || press.isComposing || press.keyCode === 229) return false;
  if (press.ctrlKey || press.metaKey) return !press.shiftKey && !press.altKey;
  return !press.shiftKey && !press.altKey && !coarsePointer;
}
