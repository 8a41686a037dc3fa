/** The wire shapes that a chat works with, and the few of its own that its files share. */
import type { ErrorBody, MessageBody, RunBody } from "@/wire/schema";

export type {
  Accepted,
  Attached,
  ClientCommand,
  ConversationBody,
  ErrorBody,
  MessageBody,
  Refused,
  Reset,
  RunBody,
  RunEvent,
  ServerFrame,
  Status,
  SteerBody,
  Steering,
  Waiting,
} from "@/wire/schema";

export type RunStatus = RunBody["status"];

/** A question that the server has not confirmed yet. `clientKey` makes sending it again harmless. */
export interface Pending {
  clientKey: string;
  content: string;
  expectedHead: number;
}

/** A message for the running answer that the server has not confirmed yet. */
export interface Unconfirmed {
  clientKey: string;
  content: string;
}

/** How a run ended without a whole answer. */
export interface Failure {
  runId: string;
  status: "failed" | "interrupted" | "stopped";
  error: ErrorBody | null;
  /** It happened while this page was open, so it is announced. */
  seen: boolean;
}

/** Reasoning that was shown live. It is never stored, so it lasts as long as the page. */
export interface Thought {
  text: string;
  /** Null when it was not watched from its beginning to its end. */
  seconds: number | null;
}

/** Local times in milliseconds, for the seconds that are shown. */
export interface Clock {
  startedAt: number;
  lastOutputAt: number;
  thinkingFrom: number | null;
  thinkingTo: number | null;
}

export interface Notice {
  text: string;
  /** What the button beside it does. */
  action: "retry" | "load_newer" | "dismiss";
}

export interface Announcement {
  text: string;
  number: number;
}

export interface LoadedPage {
  messages: MessageBody[];
  hasBefore: boolean;
}
