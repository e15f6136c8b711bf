import { afterEach } from 'vitest';
import { takeAttempts } from './loopback-network.ts';

// Wired into every test file: a test that tries to leave loopback fails, also if the code under test swallows the error.
afterEach(() => {
  const tried = takeAttempts();
  if (tried.length > 0) throw new Error(`a test tried to leave loopback: ${tried.join(', ')}`);
});
