#!/bin/sh
# Creates the two databases: the ledger, and Prefect's. Runs once, as the superuser of PostgreSQL.
set -eu
psql --username postgres --dbname postgres --set ON_ERROR_STOP=1 \
    --set catchment="$CATCHMENT_PASSWORD" --set prefect="$PREFECT_PASSWORD" <<'SQL'
CREATE ROLE catchment LOGIN PASSWORD :'catchment';
CREATE DATABASE catchment OWNER catchment TEMPLATE template0 ENCODING 'UTF8';
CREATE ROLE prefect LOGIN PASSWORD :'prefect';
CREATE DATABASE prefect OWNER prefect TEMPLATE template0 ENCODING 'UTF8';
SQL
