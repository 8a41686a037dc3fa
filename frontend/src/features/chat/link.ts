/**
 * The socket of one conversation: opens it, notices when it is dead, and opens it again with growing pauses. What to say
 * on it is `session.ts`'s business.
 */
import type { ClientCommand, RunEvent, ServerFrame } from "./types";

export type Incoming = ServerFrame | RunEvent;

export type LinkState =
  | { kind: "closed" }
  | { kind: "connecting"; attempt: number }
  | { kind: "open" }
  | { kind: "waiting"; attempt: number; since: number; until: number }
  | { kind: "offline" }
  | { kind: "signed_out" }
  | { kind: "gone" };

export interface LinkHandlers {
  onState: (state: LinkState) => void;
  onOpen: () => void;
  onFrame: (frame: Incoming) => void;
}

const PING_EVERY = 20_000;
/** A ping without any answer for this long means that the connection is dead, though nobody has said so. */
const PONG_WITHIN = 8_000;
/** A connection attempt that hangs. */
const OPEN_WITHIN = 10_000;
const LONGEST_PAUSE = 15_000;

const SIGNED_OUT = 4401;
const GONE = 4404;

/** Milliseconds before attempt number `attempt` (1 is the first repeat): doubling from 500, with up to 25 % of jitter. */
export function pauseBefore(attempt: number, random: number): number {
  const base = Math.min(LONGEST_PAUSE, 500 * 2 ** (attempt - 1));
  return Math.round(base * (1 + random / 4));
}

export class Link {
  private socket: WebSocket | null = null;
  private attempt = 0;
  private pause: ReturnType<typeof setTimeout> | undefined;
  private heartbeat: ReturnType<typeof setInterval> | undefined;
  private deadline: ReturnType<typeof setTimeout> | undefined;
  private stopped = true;

  constructor(
    private readonly url: string,
    private readonly handlers: LinkHandlers,
  ) {}

  start(): void {
    if (!this.stopped) return;
    this.stopped = false;
    window.addEventListener("online", this.retryNow);
    window.addEventListener("offline", this.goneOffline);
    this.connect();
  }

  stop(): void {
    if (this.stopped) return;
    this.stopped = true;
    window.removeEventListener("online", this.retryNow);
    window.removeEventListener("offline", this.goneOffline);
    this.drop();
    this.handlers.onState({ kind: "closed" });
  }

  get isOpen(): boolean {
    return this.socket?.readyState === WebSocket.OPEN;
  }

  /** False when there is no open socket; nothing is kept for later. */
  send(command: ClientCommand): boolean {
    if (!this.isOpen) return false;
    this.socket!.send(JSON.stringify(command));
    return true;
  }

  /** Connect at once, whatever the pause has left. */
  readonly retryNow = (): void => {
    if (this.stopped || this.isOpen) return;
    this.drop();
    this.connect();
  };

  private readonly goneOffline = (): void => {
    if (this.stopped) return;
    this.drop();
    this.handlers.onState({ kind: "offline" });
  };

  private connect(): void {
    this.handlers.onState({ kind: "connecting", attempt: this.attempt });
    const socket = new WebSocket(this.url);
    this.socket = socket;
    this.deadline = setTimeout(() => this.lost(socket), OPEN_WITHIN);
    socket.addEventListener("open", () => {
      if (this.socket === socket) this.opened();
    });
    socket.addEventListener("message", (event: MessageEvent) => {
      if (this.socket !== socket) return;
      clearTimeout(this.deadline);
      // A connection counts as good once something has come through it: a proxy may accept and drop in a loop.
      this.attempt = 0;
      const frame = JSON.parse(String(event.data)) as Incoming;
      if (frame.type !== "pong") this.handlers.onFrame(frame);
    });
    socket.addEventListener("close", (event: CloseEvent) => this.lost(socket, event.code));
  }

  private opened(): void {
    clearTimeout(this.deadline);
    clearInterval(this.heartbeat);
    this.heartbeat = setInterval(this.ping, PING_EVERY);
    this.ping();
    this.handlers.onState({ kind: "open" });
    this.handlers.onOpen();
  }

  private readonly ping = (): void => {
    const socket = this.socket;
    if (!socket || !this.send({ type: "ping" })) return;
    clearTimeout(this.deadline);
    this.deadline = setTimeout(() => this.lost(socket), PONG_WITHIN);
  };

  private lost(socket: WebSocket, code?: number): void {
    if (this.socket !== socket) return;
    this.drop();
    if (code === SIGNED_OUT) return this.handlers.onState({ kind: "signed_out" });
    if (code === GONE) return this.handlers.onState({ kind: "gone" });
    if (navigator.onLine === false) return this.handlers.onState({ kind: "offline" });
    this.attempt += 1;
    const wait = pauseBefore(this.attempt, Math.random());
    const since = Date.now();
    this.handlers.onState({ kind: "waiting", attempt: this.attempt, since, until: since + wait });
    this.pause = setTimeout(() => this.connect(), wait);
  }

  private drop(): void {
    clearTimeout(this.pause);
    clearTimeout(this.deadline);
    clearInterval(this.heartbeat);
    const socket = this.socket;
    this.socket = null;
    socket?.close();
  }
}

export function socketUrl(conversationId: string): string {
  const { protocol, host } = window.location;
  return `${protocol === "https:" ? "wss" : "ws"}://${host}/ws/conversations/${conversationId}/`;
}
