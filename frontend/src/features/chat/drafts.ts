/** Unsent text, kept in the browser for each person and conversation so that no reload, crash or sign-out loses it. */

import { storageRead, storageWrite } from "@/app/storage";

const DELAY = 150;
const waiting = new Map<string, { text: string; timer: ReturnType<typeof setTimeout> }>();

export function draftKey(userId: number | string, conversationId: string | null): string {
  return `agentx:draft:${userId}:${conversationId ?? "new"}`;
}

export function draftRead(key: string): string {
  const unsaved = waiting.get(key);
  if (unsaved) return unsaved.text;
  return storageRead(key) ?? "";
}

function store(key: string, text: string): void {
  storageWrite(key, text || null);
}

/** Written after 150 ms without a further change, or when the page is left. */
export function draftWrite(key: string, text: string): void {
  clearTimeout(waiting.get(key)?.timer);
  const timer = setTimeout(() => {
    waiting.delete(key);
    store(key, text);
  }, DELAY);
  waiting.set(key, { text, timer });
}

export function draftsFlush(): void {
  for (const [key, { text, timer }] of waiting) {
    clearTimeout(timer);
    store(key, text);
  }
  waiting.clear();
}

window.addEventListener("pagehide", draftsFlush);
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "hidden") draftsFlush();
});
