// Whether the process answers, by TLS or in the clear, whichever it speaks. Its certificate is not looked at: it is our own.
import http from 'node:http';
import https from 'node:https';

const target = { port: process.env.PORT || 8443, path: '/healthz', timeout: 2_000, rejectUnauthorized: false };

function answers(protocol) {
  return new Promise((resolve) => {
    const request = protocol.get(target, (answer) => {
      answer.resume();
      resolve(answer.statusCode === 200);
    });
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(false));
  });
}

process.exit((await answers(https)) || (await answers(http)) ? 0 : 1);
