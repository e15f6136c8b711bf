import { expect, it } from 'vitest';
import { Closers } from '../src/closers.ts';
import { recordingLogger } from './support/recording-logger.ts';

it('closes in reverse order, once, whatever cannot be closed', async () => {
  const closed: string[] = [];
  const closers = new Closers({ logger: recordingLogger() });
  closers.add('first', () => closed.push('first'));
  closers.add('second', async () => {
    throw new Error('stuck');
  });
  closers.add('third', () => closed.push('third'));
  await closers.close();
  await closers.close();
  expect(closed).toEqual(['third', 'first']);
});
