/** The open conversations. Usually one; one whose message is still on its way is kept until that has arrived. */
import { ChatSession, type SessionHooks } from "./session";

export class Registry {
  private readonly sessions = new Set<ChatSession>();

  constructor(private readonly hooks: SessionHooks) {}

  /** The session of a conversation, or of a new chat for null. Others are closed. */
  open(id: string | null): ChatSession {
    const existing = [...this.sessions].find((session) => session.state.id === id && !this.isSpent(session));
    const session = existing ?? new ChatSession(id, this.hooks);
    this.sessions.add(session);
    for (const other of this.sessions) {
      if (other !== session && !other.state.pending) this.close(other);
    }
    return session;
  }

  closeAll(): void {
    for (const session of this.sessions) this.close(session);
  }

  /** A new chat whose first message is on its way is not the place for another new chat. */
  private isSpent(session: ChatSession): boolean {
    return session.state.id === null && session.state.pending !== null;
  }

  private close(session: ChatSession): void {
    session.dispose();
    this.sessions.delete(session);
  }
}
