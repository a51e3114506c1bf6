# packages.sh
#	What the lab needs and how it gets there.
#
# Sourced after lib.sh.  A thing is looked for by what it is (a command, a
# header), not by a package's name, so that a self-built PostgreSQL or another
# system serves as well; only what is missing is installed, on Debian.

# want PACKAGE TEST...: notes the package when the test fails
want()
{
	local package=$1

	shift
	"$@" >/dev/null 2>&1 || missing+=("$package")
}

has_header()
{
	[ -f "/usr/include/$1" ] || echo "#include <$1>" | gcc -E - 2>/dev/null
}

has_libpq_headers()
{
	[ -f "$("${pg_config:-pg_config}" --includedir)/libpq-fe.h" ]
}

# The version that Debian's own "postgresql" package stands for.
default_postgres_version()
{
	local installed

	installed=$(printf '%s\n' /usr/lib/postgresql/*/bin/postgres | sort -V | tail -n 1 | cut -d/ -f5)
	if [ "$installed" != '*' ]; then
		echo "$installed"
	else
		apt-cache depends postgresql 2>/dev/null | sed -n 's/.*Depends: postgresql-\([0-9]*\)$/\1/p' | head -n 1
	fi
}

# find_missing demo|check: sets the array missing
find_missing()
{
	missing=()
	want gcc command -v gcc
	want libc6-dev has_header stdio.h
	want make command -v make
	want haproxy command -v haproxy
	want pgbouncer command -v pgbouncer
	want libpq-dev has_libpq_headers
	want libkrb5-dev has_header gssapi/gssapi.h
	want libssl-dev has_header openssl/ssl.h
	if [ -z "$pg_config" ]; then
		missing+=(postgresql-NN postgresql-server-dev-NN)
	else
		want "postgresql-NN" test -x "$("$pg_config" --bindir)/pgbench"
	fi
	if [ "$1" = check ]; then
		want clang command -v clang
		want perl command -v prove
		want libipc-run-perl perl -MIPC::Run -e 1
		want libcmocka-dev has_header cmocka.h
	fi
}

is_debian()
{
	[ -f /etc/debian_version ] && command -v apt-get >/dev/null &&
		grep -q '^ID=debian$' /etc/os-release
}

# need_packages demo|check: installs what is missing, or says what it is
need_packages()
{
	local sudo=() log version

	PATH=$PATH:/usr/sbin:/sbin
	find_postgres
	find_missing "$1"
	[ "${#missing[@]}" -gt 0 ] || return 0

	is_debian || die "missing on this system: ${missing[*]} (Debian's names; NN is a version of PostgreSQL, 15 or later)" \
		'install them and start again; PG_CONFIG names a PostgreSQL that is not found'
	if [ "$(id -u)" -ne 0 ]; then
		command -v sudo >/dev/null ||
			die "missing packages: ${missing[*]}" "there is no sudo: run this as root, or have them installed"
		sudo=(sudo)
	fi
	log=$(mktemp "${TMPDIR:-/tmp}/connbench-install.XXXXXX")
	if ! ls /var/lib/apt/lists/*_Packages* >/dev/null 2>&1; then
		"${sudo[@]}" apt-get -q update >>"$log" 2>&1 || install_failed "$log"
	fi
	version=$(default_postgres_version)
	[ -n "$version" ] || die 'this Debian offers no package "postgresql"' 'run apt-get update'
	missing=("${missing[@]//-NN/-$version}")

	say "Installing ${missing[*]} (no service is started or enabled) ..."
	"${sudo[@]}" bash "$top/lab/install-packages" "${missing[@]}" >>"$log" 2>&1 || install_failed "$log"
	rm -f "$log"
	find_postgres
	find_missing "$1"
	[ "${#missing[@]}" -eq 0 ] || die "still missing after the installation: ${missing[*]}"
}

install_failed()
{
	show_log "$1"
	die "could not install packages: ${missing[*]}" "the whole log is $1"
}
