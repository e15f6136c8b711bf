# Two stages: the second holds the built program and its runtime packages, nothing that builds.
FROM node:24-bookworm-slim AS build
WORKDIR /larder
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY tsconfig.json tsconfig.build.json ./
COPY src ./src
RUN npm run build && npm prune --omit=dev --ignore-scripts

FROM node:24-bookworm-slim
ENV NODE_ENV=production LARDER_DATA=/data
# git and ssh fetch modules that are kept in repositories; tini buries what they leave when they are killed.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates git openssh-client tini && rm -rf /var/lib/apt/lists/*
WORKDIR /larder
COPY --from=build /larder/node_modules ./node_modules
COPY --from=build /larder/dist ./dist
COPY package.json LICENSE ./
COPY config ./config
COPY assets ./assets
RUN install -d -o node -g node /data
USER node
VOLUME /data
EXPOSE 8443
# The certificate is Larder's own: what is asked is whether the process answers. Behind `tls: off` give the check of your orchestrator instead.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
  CMD ["node", "-e", "require('node:https').get({ port: process.env.PORT || 8443, path: '/healthz', rejectUnauthorized: false }, (answer) => process.exit(answer.statusCode === 200 ? 0 : 1)).on('error', () => process.exit(1))"]
ENTRYPOINT ["tini", "--", "node", "--max-semi-space-size=8", "dist/main.js"]
CMD ["serve"]
