import { expect } from 'vitest';
import type { JobPageDocument } from '../../src/http/job-documents.ts';
import { type Scene, type SceneOptions, startScene } from './scene.ts';

export const OPS = 'token-of-the-operators';
export const NARROW = 'token-of-the-platform-team';

/** What a job and its items look like once they have come over the wire. */
export type JobAnswer = JobPageDocument;

export interface WarmScene extends Scene {
  /** Begins a job with a warm list, or with a file of this name. */
  warm(wish: unknown, options?: { token?: string; query?: string }): Promise<string>;
  job(id: string, token?: string): Promise<JobAnswer>;
  /** Resolves when the job has ended; waits for that for 20 s unless told otherwise. */
  ended(id: string, patienceMs?: number): Promise<JobAnswer>;
  admin(method: string, path: string, token?: string): ReturnType<Scene['get']>;
}

/** A Larder with operators. */
export async function startWarmScene(options: SceneOptions = {}): Promise<WarmScene> {
  const scene = await startScene({
    ...options,
    config: {
      access: {
        tokens: [
          { name: 'ops', token: OPS, roles: ['admin'] },
          { name: 'narrow', token: NARROW, roles: ['admin'], addresses: ['*/acme/*'] },
        ],
      },
      ...options.config,
    },
  });
  return { ...scene, ...doorsFor(scene.get) };
}

/** The requests of operators. */
export function doorsFor(get: Scene['get']): Pick<WarmScene, 'warm' | 'job' | 'ended' | 'admin'> {
  const admin = (method: string, path: string, token = OPS) =>
    get(`/admin/${path}`, { method, headers: { authorization: `Bearer ${token}` } });
  const job = async (id: string, token?: string) => {
    const answer = await admin('GET', `jobs/${id}`, token);
    expect(answer.status, answer.text()).toBe(200);
    return answer.json() as JobAnswer;
  };
  return {
    admin,
    job,
    warm: async (wish, { token = OPS, query = '' } = {}) => {
      const answer = await get(`/admin/warm${query}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${token}`, 'content-type': 'application/json' },
        body: typeof wish === 'string' ? wish : JSON.stringify(wish),
      });
      expect(answer.status, answer.text()).toBe(202);
      const { job: id } = answer.json();
      expect(answer.headers['location']).toBe(`jobs/${id}`);
      return id as string;
    },
    ended: async (id, patienceMs = 20_000) => {
      const hasEnded = async () => !['planning', 'running', 'paused'].includes((await job(id)).state);
      await expect.poll(hasEnded, { timeout: patienceMs, interval: 50 }).toBe(true);
      return job(id);
    },
  };
}

/** Outcomes by name. */
export function outcomes({ items }: JobAnswer): Record<string, string | undefined> {
  return Object.fromEntries(items.map(({ name, outcome }) => [name, outcome]));
}
