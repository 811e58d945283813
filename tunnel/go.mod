module gostlab/relay

go 1.24

require (
	github.com/gorilla/websocket v1.5.3
	github.com/xtaci/smux v1.5.31
)
