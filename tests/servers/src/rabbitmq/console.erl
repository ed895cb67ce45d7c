% Answers expressions from inside of a broker, each on a connection of its own, as long as the broker runs. The value of
% an expression is a text. The broker itself runs this as it boots, and writes the port into its folder: `rabbitmqctl`
% starts an Erlang machine for each question, which takes half a second of processor.
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
    Note = filename:join(os:getenv("HOME"), "console"),
    ok = file:write_file(Note ++ ".new", integer_to_binary(Port)),
    ok = file:rename(Note ++ ".new", Note),
    Listen()
end).
