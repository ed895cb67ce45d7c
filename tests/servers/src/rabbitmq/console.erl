% Answers expressions from inside of a broker, each on a connection of its own, as long as the broker runs. The value of
% an expression is a text. `rabbitmqctl` starts an Erlang machine for each question, which takes half a second of processor.
Asker = self(),
spawn(fun() ->
    {ok, Listener} = gen_tcp:listen(0, [binary, {ip, {127, 0, 0, 1}}, {packet, 4}, {active, false}, {backlog, 128}]),
    Answer = fun(Socket) ->
        Name = atom_to_binary(node()),
        {ok, <<Name:(byte_size(Name))/binary, " ", Expressions/binary>>} = gen_tcp:recv(Socket, 0),
        {ok, Tokens, _} = erl_scan:string(unicode:characters_to_list(Expressions)),
        {ok, Parsed} = erl_parse:parse_exprs(Tokens),
        {value, Value, _} = erl_eval:exprs(Parsed, []),
        gen_tcp:send(Socket, Value)
    end,
    Listen = fun Listen() ->
        {ok, Socket} = gen_tcp:accept(Listener),
        Answering = spawn(fun() -> receive go -> Answer(Socket) end end),
        gen_tcp:controlling_process(Socket, Answering),
        Answering ! go,
        Listen()
    end,
    {ok, Port} = inet:port(Listener),
    Asker ! {console, Port},
    Listen()
end),
receive {console, Port} -> Port end.
