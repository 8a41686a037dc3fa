/** What a chat shows, as one value, and the pure steps that change it. */
import type { LinkState } from "./link";
import type { LiveRun } from "./live";
import { isStep } from "./steps";
import type {
  Announcement,
  Clock,
  Failure,
  MessageBody,
  Notice,
  Pending,
  RunBody,
  RunStatus,
  SteerBody,
  Thought,
  Unconfirmed,
} from "./types";

export interface ChatState {
  /** Null until the first message of a new chat has made the conversation. */
  id: string | null;
  phase: "new" | "loading" | "ready" | "missing" | "failed";
  loadError: string | null;
  /** Ascending by seq, without holes once `fetchNewer` has caught up. */
  messages: MessageBody[];
  hasBefore: boolean;
  before: "idle" | "loading" | "failed";
  pending: Pending | null;
  live: LiveRun | null;
  /** Messages on their way to the running answer, in the order in which they were sent. */
  steering: Unconfirmed[];
  /** Those the server keeps for the run `runId` until it can take them in. */
  waiting: { runId: string; steers: SteerBody[] } | null;
  clock: Clock;
  stopping: boolean;
  /** By the seq of the question. */
  failures: Record<number, Failure>;
  /** By run id. */
  thoughts: Record<string, Thought>;
  link: LinkState;
  liveAvailable: boolean;
  notice: Notice | null;
  announcement: Announcement;
  draft: string;
}

export const STILL: Clock = { startedAt: 0, lastOutputAt: 0, thinkingFrom: null, thinkingTo: null };

export function emptyState(id: string | null, draft: string): ChatState {
  return {
    id,
    phase: id === null ? "new" : "loading",
    loadError: null,
    messages: [],
    hasBefore: false,
    before: "idle",
    pending: null,
    live: null,
    steering: [],
    waiting: null,
    clock: STILL,
    stopping: false,
    failures: {},
    thoughts: {},
    link: { kind: "closed" },
    liveAvailable: true,
    notice: null,
    announcement: { text: "", number: 0 },
    draft,
  };
}

export function headOf(messages: MessageBody[]): number {
  return messages.at(-1)?.seq ?? 0;
}

/** Both lists as one, ascending, each seq once; what is in `incoming` replaces what was there. */
export function mergeMessages(messages: MessageBody[], incoming: MessageBody[]): MessageBody[] {
  if (incoming.length === 0) return messages;
  const head = headOf(messages);
  if (incoming[0]!.seq > head) return [...messages, ...incoming];
  const bySeq = new Map(messages.map((message) => [message.seq, message]));
  for (const message of incoming) bySeq.set(message.seq, message);
  return [...bySeq.values()].toSorted((one, other) => one.seq - other.seq);
}

/** The last seq that is followed by a hole, or the newest one. */
export function lastContiguous(messages: MessageBody[]): number {
  for (let index = 1; index < messages.length; index += 1) {
    if (messages[index]!.seq !== messages[index - 1]!.seq + 1) return messages[index - 1]!.seq;
  }
  return headOf(messages);
}

const FAILED: Partial<Record<RunStatus, Failure["status"]>> = {
  failed: "failed",
  interrupted: "interrupted",
  cancelled: "stopped",
};

export function isActive(status: RunStatus): boolean {
  return status === "queued" || status === "running";
}

export function failureOf(
  runId: string,
  status: RunStatus,
  error: Failure["error"],
  seen: boolean,
): Failure | null {
  const failed = FAILED[status];
  return failed ? { runId, status: failed, error, seen } : null;
}

/** The newest run of each question that ended without a whole answer. `runs`: newest first. */
export function failuresOf(runs: RunBody[]): Record<number, Failure> {
  const failures: Record<number, Failure> = {};
  for (const run of runs.toReversed()) {
    const failure = failureOf(run.id, run.status, run.error, false);
    if (failure) failures[run.user_message_seq] = failure;
  }
  return failures;
}

/** Whether something in the list can only be explained by looking at its run. */
export function needsRuns(messages: MessageBody[]): boolean {
  return messages.some((message, index) => {
    if (message.role !== "user") return message.status !== "complete";
    const next = messages.slice(index + 1).find((later) => !isStep(later));
    return next?.role !== "assistant";
  });
}

/** Local times after more of a run has arrived at `now`. */
export function tickClock(clock: Clock, before: LiveRun, after: LiveRun, now: number): Clock {
  const began = before.thinking === "" && after.thinking !== "";
  const answered = before.text === "" && after.text !== "";
  const silent =
    before.text === after.text && before.thinking === after.thinking && before.steps === after.steps;
  return {
    startedAt: clock.startedAt,
    lastOutputAt: silent ? clock.lastOutputAt : now,
    thinkingFrom: began ? now : clock.thinkingFrom,
    thinkingTo: answered && (began || clock.thinkingFrom !== null) ? now : clock.thinkingTo,
  };
}

/** A thought that arrived together with its end was replayed: how long it took is not known. */
export function thoughtOf(run: LiveRun, clock: Clock, now: number): Thought | null {
  if (run.thinking === "") return null;
  const from = clock.thinkingFrom ?? now;
  const ms = (clock.thinkingTo ?? now) - from;
  return { text: run.thinking, seconds: ms > 0 ? Math.round(ms / 1000) : null };
}
