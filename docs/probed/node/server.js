// Limits of express-rate-limit, one at each path, by the query parameter user. It says on its standard output at which address it
// listens, on a port that the system chooses.
'use strict';

const express = require('express');
const {rateLimit} = require('express-rate-limit');

const app = express();
const limits = {
  '/draft-8': {standardHeaders: 'draft-8', legacyHeaders: false},
  '/draft-7': {standardHeaders: 'draft-7', legacyHeaders: false},
  '/draft-6': {standardHeaders: 'draft-6', legacyHeaders: false},
  '/legacy': {legacyHeaders: true},
};
for (const [path, headers] of Object.entries(limits)) {
  const limit = rateLimit({windowMs: 1000, limit: 10, keyGenerator: request => String(request.query.user), ...headers});
  app.get(path, limit, (request, response) => response.send('ok\n'));
}

const server = app.listen(0, '127.0.0.1', error => {
  if (error) throw error;
  console.log(`127.0.0.1:${server.address().port}`);
});
