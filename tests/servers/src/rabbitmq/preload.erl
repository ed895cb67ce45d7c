%% Loads all that RabbitMQ is made of at once, before it boots. By itself it loads one module after the other, and after
%% each the machine brings its table of functions up to date: that is half of what a boot computes.
Named = fun(Key, Application) ->
    Described = case code:where_is_file(atom_to_list(Application) ++ ".app") of
        non_existing -> none;
        Path -> file:consult(Path)
    end,
    case Described of
        {ok, [{application, Application, Properties}]} -> proplists:get_value(Key, Properties, []);
        _ -> []
    end
end,
Needed = fun Needed(Application, Known) ->
    case lists:member(Application, Known) of
        true -> Known;
        false -> lists:foldl(Needed, [Application | Known], Named(applications, Application))
    end
end,
%% The commands of a broker have the same environment, and need none of it: only a broker has this argument.
case init:get_argument(idem_broker) of
    {ok, _} ->
        Modules = lists:flatmap(fun(Application) -> Named(modules, Application) end, Needed(rabbit, [])),
        %% What cannot be loaded, RabbitMQ will tell.
        code:ensure_modules_loaded(Modules);
    error -> none
end.
